import type { CallerValues, CountersRequest } from '../../admin/api/types.ts'

/** A policy, a rule and a caller, as `POLICY RULE KEY=VALUE…` names them. */
export function readSubject([policy, rule, ...rest]: readonly string[]): Required<CountersRequest> {
  if (!policy || !rule) throw new UsageProblem('expected a policy and a rule')
  return { policy, rule, values: readCallerValues(rest) }
}

/** `header:x-api-key=alice`, as the commands read it; a rule without keys has one counter for everybody. */
export function callerText(values: CallerValues): string {
  const pairs = Object.entries(values).map(([key, value]) => `${key}=${value}`)
  return pairs.length === 0 ? 'everybody' : pairs.join(' ')
}

/**
 * Keys whose values were given as digests, by their look: overrides take those, but a counter is found by the credential alone.
 * `shown`: the same caller as the API shows it, where each credential has become a digest.
 */
export function keysWithDigests(given: CallerValues, shown: CallerValues): string[] {
  const all = Object.values(shown)
  return Object.keys(given).filter((key) => /^[0-9a-f]{16}$/.test(given[key]!) && !all.includes(given[key]!))
}

/** `KEY=VALUE` arguments, such as `header:x-api-key=alice`. A value may contain `=`. */
function readCallerValues(args: readonly string[]): CallerValues {
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

/** Keys whose values the API has as the client sent them: one character for each byte. */
const BYTE_KEYS = /^(?:header:|cookie:|bearer$)/i

/** A value of this key, as the API expects it: clients send text in UTF-8. */
function valueBytes(key: string, text: string): string {
  return BYTE_KEYS.test(key) ? fieldBytes(text) : text
}

/** The value of a header field, one character for each byte. */
export function fieldBytes(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** What the API shows, as text again: where its characters are bytes of UTF-8, what they mean. */
export function textOfBytes(shown: string): string {
  if (/[\u0100-\uffff]/.test(shown)) return shown
  const text = Buffer.from(shown, 'latin1').toString()
  return text.includes('\ufffd') ? shown : text
}

/** Why the admin API could not do what was asked, as a sentence. */
export class AdminProblem extends Error {}

/** What is wrong with a command's arguments, as a sentence. */
export class UsageProblem extends Error {}
