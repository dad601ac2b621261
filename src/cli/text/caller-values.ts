import type { CallerValues, CountersRequest } from '../../admin/api/types.ts'

/** Reads a policy, a rule and a caller from `POLICY RULE KEY=VALUE…`. */
export function readSubject([policy, rule, ...rest]: readonly string[]): Required<CountersRequest> {
  if (policy === undefined || rule === undefined) throw new UsageProblem('expected a policy and a rule')
  for (const [name, value] of [
    ['POLICY', policy],
    ['RULE', rule],
  ] as const)
    if (value.trim() === '') throw new UsageProblem(`${name} is empty: expected POLICY RULE, the names of a policy and of one of its rules`)
  return { policy, rule, values: readCallerValues(rest) }
}

/** Formats a caller as the commands read it, such as `header:x-api-key=alice`. A rule without keys has one counter for everybody. */
export function callerText(values: CallerValues): string {
  const pairs = Object.entries(values).map(([key, value]) => `${key}=${value}`)
  return pairs.length === 0 ? 'everybody' : pairs.join(' ')
}

/**
 * Returns the keys whose values look as if they were given as digests: overrides accept those, but a counter is found only by the credential.
 * `shown` is the same caller as the API shows it, where each credential has become a digest.
 */
export function keysWithDigests(given: CallerValues, shown: CallerValues): string[] {
  const all = Object.values(shown)
  return Object.keys(given).filter((key) => /^[0-9a-f]{16}$/.test(given[key]!) && !all.includes(given[key]!))
}

/** Reads `KEY=VALUE` arguments, such as `header:x-api-key=alice`. A value may contain `=`. */
export function readCallerValues(args: readonly string[]): CallerValues {
  const values = new Map<string, string>()
  for (const arg of args) {
    const end = arg.indexOf('=')
    if (end < 1) throw new UsageProblem(`expected KEY=VALUE, such as header:x-api-key=alice, got ${JSON.stringify(arg)}`)
    const key = arg.slice(0, end)
    if (values.has(key)) throw new UsageProblem(`${key} is given twice`)
    values.set(key, valueBytes(key, arg.slice(end + 1)))
  }
  return Object.fromEntries(values)
}

/** Keys whose values are latin1 strings in the API: one character for each byte that the client sent. */
const BYTE_KEYS = /^(?:header:|bearer$|llm:key$)/i

/** Converts a value of this key to what the API expects. Clients are assumed to send text in UTF-8. */
function valueBytes(key: string, text: string): string {
  return BYTE_KEYS.test(key) ? fieldBytes(text) : text
}

/** Returns the UTF-8 bytes of a header field's value as a latin1 string. */
export function fieldBytes(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** Converts what the API shows back to text: a latin1 string that is valid UTF-8 is decoded. */
export function textOfBytes(shown: string): string {
  if (/[\u0100-\uffff]/.test(shown)) return shown
  const text = Buffer.from(shown, 'latin1').toString()
  return text.includes('\ufffd') ? shown : text
}

/** The admin API could not do what was asked; the message says why, in a sentence. */
export class AdminProblem extends Error {}

/** What was asked for has to be confirmed, and was not; the message says how. */
export class UnconfirmedProblem extends AdminProblem {}

/** A command's arguments are wrong; the message says how, in a sentence. */
export class UsageProblem extends Error {}
