import type { ConfiguredLimit, Entry, Unit } from './configuration.ts'
import { isPrefix, type Level } from './precedence.ts'

/** A rule of a bundle, without its name. */
export type NamelessRule = Readonly<Record<string, unknown>>

type Match = 'else' | Readonly<Record<string, string | readonly string[]>>

/** The rule of the limit at the end of `levels`. `match` names no key that has any value. */
export function ruleOf(limit: ConfiguredLimit, levels: readonly Level[], match: Match | undefined): NamelessRule {
  if (limit.unit === undefined || limit.requests === 0) {
    const algorithm = limit.unit === undefined ? 'unlimited' : 'block'
    return { match: match === 'else' ? match : { ...anyValueOf(levels), ...match }, algorithm }
  }
  return {
    ...(match && { match }),
    limit_keys: levels.filter(({ entry }) => hasCounterPerValue(entry)).map(({ key }) => key),
    ...(limit.unit === 'second'
      ? { algorithm: 'token_bucket', algorithm_config: { rate: `${limit.requests}/second` } }
      : { algorithm: 'fixed_window', algorithm_config: { limit: limit.requests, period: PERIODS[limit.unit] } }),
  }
}

const PERIODS: Readonly<Record<Exclude<Unit, 'second'>, string>> = {
  minute: '1m',
  hour: '1h',
  day: '1d',
  week: '1w',
  month: '1mo',
  year: '1y',
}

/** Limits nothing. An `else` beside it does not apply to these values of a level. */
export function exemptionOf(levels: readonly Level[], level: Level, values: readonly string[]): NamelessRule {
  return { match: { ...anyValueOf(levels), [level.key]: values }, algorithm: 'unlimited' }
}

/** A rule covers only descriptors whose keys it names, all of them. */
function anyValueOf(levels: readonly Level[]): Record<string, string> {
  return Object.fromEntries(levels.filter(({ entry }) => entry.value === undefined).map(({ key }) => [key, '*']))
}

function hasCounterPerValue({ value, isShared }: Entry): boolean {
  return value === undefined || (isPrefix(value) && !isShared)
}
