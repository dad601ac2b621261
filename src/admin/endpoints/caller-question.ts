import type { CallerDigest } from '../../engine/decide-options.ts'
import type { CallerMatch } from '../../policy/caller-match.ts'
import { isCredential, KEY_FORMS, meantKey, parseDescriptorKey } from '../../policy/descriptor-key.ts'
import { addressForm, countedForm } from '../../policy/rule-match.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { refuseUnknown } from '../api/api-request.ts'
import type { CallersRequest } from '../api/caller-types.ts'
import { looksLikeDigest } from '../api/counter-name.ts'

/** A caller that an operator asks about. */
export interface CallerQuestion {
  /** What rules call their callers by: the value of each key that was given, or one value whose key is not known. */
  readonly given: GivenValues | GivenValue
  /** The same as operators see it in other places. */
  readonly match: CallerMatch
  readonly policy: string | undefined
}

interface GivenValues {
  readonly values: ReadonlyMap<string, string>
}

export interface GivenValue {
  /** The value in the form that this key has it; undefined where it cannot be a value of the key. */
  readonly formFor: (key: string) => string | undefined
}

/** Reads what an operator asks. `callerDigest` converts credentials to digests. Problems name no value. */
export function readCallerQuestion(body: Readonly<Record<string, unknown>>, callerDigest: CallerDigest): CallerQuestion {
  refuseUnknown<CallersRequest>(body, ['values', 'value', 'policy'])
  const { values, value, policy } = body
  if (policy !== undefined && (typeof policy !== 'string' || policy === ''))
    throw new ApiError('bad_request', `policy: expected the id of a policy, got ${show(policy)}`)
  if ((values === undefined) === (value === undefined))
    throw new ApiError('wrong_values', 'expected either values, such as {"header:x-key":"alice"}, or one value alone, such as "alice"')
  return { ...(values === undefined ? readValue(value, callerDigest) : readValues(values, callerDigest)), policy }
}

/** As many as a rule can have keys. */
const MAX_VALUES = 32
/** No longer than tokens and cookies are: a value is hashed for each rule that is looked at. */
const MAX_CHARACTERS = 16 * 1024
const SHOWN_PROBLEMS = 5

function readValues(given: unknown, callerDigest: CallerDigest): Omit<CallerQuestion, 'policy'> {
  const entries = typeof given === 'object' && given !== null && !Array.isArray(given) ? Object.entries(given) : []
  if (entries.length === 0 || entries.length > MAX_VALUES)
    throw new ApiError('wrong_values', `values: expected 1 to ${MAX_VALUES} keys with a value each, such as {"header:x-key":"alice"}`)
  const values = new Map<string, string>()
  const problems: string[] = []
  for (const [text, value] of entries) {
    const key = parseDescriptorKey(text)?.text
    const problem = key === undefined ? unknownKey(text) : values.has(key) ? `${show(key)} comes more than once` : valueProblem(key, value)
    if (problem === undefined) values.set(key!, countedForm(key!, value)!)
    else problems.push(problem)
  }
  if (problems.length > 0) {
    const more = problems.length > SHOWN_PROBLEMS ? `; and ${problems.length - SHOWN_PROBLEMS} more` : ''
    throw new ApiError('wrong_values', `values: ${problems.slice(0, SHOWN_PROBLEMS).join('; ')}${more}`)
  }
  const byKey = new Map(Array.from(values, ([key, value]) => [key, isCredential(key) ? digests(value, callerDigest) : [value]]))
  return { given: { values }, match: { byKey } }
}

function unknownKey(text: string): string {
  const meant = meantKey(text)
  return `${show(text)} is no descriptor key: ${meant === undefined ? `expected ${KEY_FORMS}` : `did you mean ${show(meant)}?`}`
}

function valueProblem(key: string, value: unknown): string | undefined {
  if (typeof value !== 'string') return `${show(key)} must be a text`
  if (value === '' && !key.startsWith('descriptor:')) return `${show(key)} is empty`
  if (value.length > MAX_CHARACTERS) return `${show(key)} has more than ${MAX_CHARACTERS} characters`
  return key === 'ip:address' && addressForm(value) === undefined ? `${show(key)} is no IP address` : undefined
}

function readValue(value: unknown, callerDigest: CallerDigest): Omit<CallerQuestion, 'policy'> {
  if (typeof value !== 'string' || value === '') throw new ApiError('wrong_values', 'value: expected a text that is not empty')
  if (value.length > MAX_CHARACTERS) throw new ApiError('wrong_values', `value: expected at most ${MAX_CHARACTERS} characters`)
  const bytes = Buffer.from(value).toString('latin1')
  const address = addressForm(value)
  return {
    given: { formFor: (key) => (isPossible(key, value) ? countedForm(key, BYTES.test(key) ? bytes : value) : undefined) },
    match: {
      credential: [...new Set([...digests(value, callerDigest), callerDigest([bytes]), callerDigest([countedForm('bearer', bytes)!])])],
      plain: [...new Set([value, bytes, address ?? value])],
    },
  }
}

/** Keys whose values have one character for each byte that the client sent. */
const BYTES = /^(?:header:|bearer$|llm:key$)/

/** Some keys have few values, so that most texts cannot be one of them. */
function isPossible(key: string, value: string): boolean {
  if (key === 'ip:country') return /^[A-Z]{2}$/.test(value)
  return key !== 'ip:tor' || value === 'true' || value === 'false'
}

/** The digest of a credential. What looks like a digest may be meant as one. */
function digests(value: string, callerDigest: CallerDigest): string[] {
  return looksLikeDigest(value) ? [value, callerDigest([value])] : [callerDigest([value])]
}
