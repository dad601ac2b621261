import type { CounterName } from '../../engine/explain/inspection.ts'
import { isCredential, parseDescriptorKey } from '../../policy/descriptor-key.ts'
import type { PlanRule } from '../../policy/plan.ts'
import { countedForm } from '../../policy/rule-match.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from './api-error.ts'

/** A rule, and the values of one caller by key, as they were given. A key may be repeated. */
export interface AskedCounters {
  readonly policy: string
  readonly rule: string
  readonly values: readonly (readonly [string, unknown])[]
}

/** Reads the rule and the values from a body. */
export function askedByBody({ policy, rule, values = {} }: Readonly<Record<string, unknown>>): AskedCounters {
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw new ApiError('wrong_values', 'values: expected an object of keys and values, such as {"header:x-key":"alice"}')
  return { policy: nameOf('policy', policy), rule: nameOf('rule', rule), values: Object.entries(values) }
}

/** Reads the rule and the values from a URL: all parameters except `policy` and `rule` are values. */
export function askedByQuery(query: URLSearchParams): AskedCounters {
  for (const name of ['policy', 'rule'])
    if (query.getAll(name).length > 1) throw new ApiError('bad_request', `${name}: is given more than once`)
  const values = [...query].filter(([key]) => key !== 'policy' && key !== 'rule')
  return {
    policy: nameOf('policy', query.get('policy') ?? undefined),
    rule: nameOf('rule', query.get('rule') ?? undefined),
    values,
  }
}

function nameOf(field: string, value: unknown): string {
  if (value === undefined || value === null || value === '') throw new ApiError('bad_request', `${field}: missing`)
  if (typeof value !== 'string') throw new ApiError('bad_request', `${field}: expected a text`)
  return value
}

/** No rule can have this many keys. */
const MAX_VALUES = 100

/** Requires exactly one text for each of the rule's limit keys. The error message names the problems but never a value. */
export function counterName({ limitKeys }: PlanRule, { policy, rule, values }: AskedCounters): CounterName {
  if (values.length > MAX_VALUES) throw new ApiError('wrong_values', valuesMessage(limitKeys, [`got ${values.length} values`]))
  const problems: string[] = []
  const given = new Map<string, string>()
  for (const [text, value] of values) {
    const key = parseDescriptorKey(text)?.text ?? text
    if (!limitKeys.includes(key)) problems.push(`${show(key)} is not one of them`)
    else if (given.has(key)) problems.push(`${key} is given more than once`)
    else if (typeof value !== 'string') problems.push(`${key} must be a text`)
    else if (value === '' && !key.startsWith('descriptor:')) problems.push(`${key} is empty`)
    else if (countedForm(key, value) === undefined) problems.push(`${key} is not an IP address`)
    given.set(key, value as string)
  }
  for (const key of limitKeys) if (!given.has(key)) problems.push(`${key} is missing`)
  if (problems.length > 0) throw new ApiError('wrong_values', valuesMessage(limitKeys, problems))
  return { policy, rule, values: Object.fromEntries(given) }
}

/** Refuses credentials in a URL, because URLs are logged on their way. */
export function refuseCredentials({ limitKeys }: PlanRule, { values }: AskedCounters): void {
  const keys = [...limitKeys, ...values.map(([key]) => parseDescriptorKey(key)?.text ?? key)]
  const credential = keys.find(isCredential)
  if (credential === undefined) return
  throw new ApiError(
    'bad_request',
    `${show(credential)} is a credential, and URLs are logged: use POST counters with {"policy", "rule", "values"} as the body instead`,
  )
}

const SHOWN_PROBLEMS = 5

function valuesMessage(limitKeys: readonly string[], problems: readonly string[]): string {
  const expected =
    limitKeys.length === 0 ? 'this rule has no limit_keys, so it takes no values' : `expected a value for each of ${limitKeys.join(', ')}`
  const shown = problems.slice(0, SHOWN_PROBLEMS).join('; ')
  const more = problems.length > SHOWN_PROBLEMS ? `; and ${problems.length - SHOWN_PROBLEMS} more` : ''
  return `${expected}: ${shown}${more}`
}

/** Whether a credential may have been given as the digest that operators see in its place. No counter is found by that. */
export function looksLikeDigest(value: string): boolean {
  return /^[0-9a-f]{16}$/.test(value)
}
