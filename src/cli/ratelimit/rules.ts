import type { ConfiguredLimit, Entry, Unit } from './configuration.ts'

/** A rule of a bundle, without its name. */
export type NamelessRule = Readonly<Record<string, unknown>>

type Match = 'else' | Readonly<Record<string, string | readonly string[]>>

/** Returns the rule for the limit at the end of `levels`. `match` names no key whose value is arbitrary. */
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

/** Returns a rule that limits nothing, so that an `else` beside it does not apply to these values of a level. */
export function exemptionOf(levels: readonly Level[], level: Level, values: readonly string[]): NamelessRule {
  return { match: { ...anyValueOf(levels), [level.key]: values }, algorithm: 'unlimited' }
}

/** A rule covers a descriptor only if it names every key of the descriptor, so keys with arbitrary values are named, too. */
function anyValueOf(levels: readonly Level[]): Record<string, string> {
  return Object.fromEntries(levels.filter(({ entry }) => entry.value === undefined).map(({ key }) => [key, '*']))
}

function hasCounterPerValue({ value, isShared }: Entry): boolean {
  return value === undefined || (isPrefix(value) && !isShared)
}

/*
 * For each entry of a descriptor, envoyproxy/ratelimit takes at each level the entry with exactly this value, else the first whose value is a
 * matching prefix with `*`, else the one without a value. It never backtracks.
 */

/** One level on the way from the top of a configuration to a limit. */
export interface Level {
  readonly entry: Entry
  /** The key as bundles write it. */
  readonly key: string
  /** Patterns of the key's other entries that take precedence; none of them covers another. */
  readonly except: readonly string[]
  readonly siblings: KeyEntries
}

/** Entries of one key at one level. */
export class KeyEntries {
  readonly #texts: string[] = []
  readonly #prefixes: string[] = []
  readonly #valued: Entry[] = []

  add(entry: Entry): void {
    if (entry.value === undefined || hasWildcardInside(entry)) return
    this.#valued.push(entry)
    if (isPrefix(entry.value)) this.#prefixes.push(entry.value.slice(0, -1))
    else this.#texts.push(entry.value)
  }

  /** Entries for certain values, whole or as a prefix. */
  get valued(): readonly Entry[] {
    return this.#valued
  }

  get prefixCount(): number {
    return this.#prefixes.length
  }

  /** Returns patterns of the values for which other entries take precedence; undefined if that is so for all of its values. */
  exceptionsOf({ value }: Entry): readonly string[] | undefined {
    if (value !== undefined && !isPrefix(value)) return []
    const own = value?.slice(0, -1) ?? ''
    const before = value === undefined ? this.#prefixes : this.#prefixes.slice(0, this.#prefixes.indexOf(own))
    if (before.some((prefix) => own.startsWith(prefix))) return undefined
    const prefixes = shortest(before.filter((prefix) => prefix.startsWith(own)))
    const texts = this.#texts.filter((text) => text.startsWith(own) && !prefixes.some((prefix) => text.startsWith(prefix)))
    return [...texts, ...prefixes.map((prefix) => `${prefix}*`)]
  }
}

/** Groups entries by their key. */
export function byKey(entries: readonly Entry[]): ReadonlyMap<string, KeyEntries> {
  const found = new Map<string, KeyEntries>()
  for (const entry of entries) {
    const known = found.get(entry.key) ?? new KeyEntries()
    known.add(entry)
    found.set(entry.key, known)
  }
  return found
}

/** Such entries cannot be converted, so they are no exceptions of others either. */
export function hasWildcardInside({ value = '' }: Entry): boolean {
  return value.slice(0, -1).includes('*')
}

function isPrefix(value: string): boolean {
  return value.endsWith('*')
}

/** Returns the prefixes that do not start with another one. */
function shortest(prefixes: readonly string[]): string[] {
  return prefixes.filter((prefix) => !prefixes.some((other) => other !== prefix && prefix.startsWith(other)))
}
