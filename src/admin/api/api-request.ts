import type { IncomingMessage } from 'node:http'
import { readWholeBody } from '../../listen/node-http/read-body.ts'
import type { Plan, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { readRequestJson } from '../../text/json-document.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from './api-error.ts'

/** More than any request needs: a value for each key of a rule, and some names. */
const MAX_PARAMETERS = 100

/** The query of a target, with or without its `?`. Thousands of parameters would hold up the thread. */
export function parseQuery(text: string): URLSearchParams {
  let count = 1
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++count > MAX_PARAMETERS) throw new ApiError('bad_request', `the URL has more than ${MAX_PARAMETERS} parameters`)
  return new URLSearchParams(text)
}

/** The parameters of a URL by name, of which each may come once. Refuses those that nobody would read. */
export function readQuery<Name extends string>(query: URLSearchParams, known: readonly Name[]): Partial<Record<Name, string>> {
  const read: Partial<Record<Name, string>> = {}
  for (const [name, value] of query) {
    if (!known.includes(name as Name)) {
      const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`
      throw new ApiError('bad_request', `unknown parameter ${show(name)}; ${expected}`)
    }
    if (read[name as Name] !== undefined) throw new ApiError('bad_request', `${name} comes more than once`)
    read[name as Name] = value
  }
  return read
}

/** A whole number from 1 to `max`; `byDefault` where it is absent. */
export function readCount(name: string, text: string | undefined, byDefault: number, max: number): number {
  if (text === undefined) return byDefault
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > max) throw new ApiError('bad_request', `${name}: expected a whole number from 1 to ${max}, got ${show(text)}`)
  return count
}

/** Smaller than what closes the connection, so that the response arrives. */
const MAX_BYTES = 64 * 1024
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The members of a request's JSON body, which must be an object. Its Content-Type does not matter. */
export async function readJsonBody(req: IncomingMessage, maxBytes = MAX_BYTES): Promise<Readonly<Record<string, unknown>>> {
  const { 'content-encoding': coding = 'identity', 'content-length': length = '0' } = req.headers
  if (coding.toLowerCase() !== 'identity') throw badBody('must not be compressed: leave Content-Encoding out')
  // Before it is sent, where the client says so.
  const body = Number(length) > maxBytes ? 'too_large' : await readWholeBody(req, maxBytes)
  if (body === 'too_large') throw badBody(`must not be larger than ${maxBytes / 1024} KiB`)
  if (body === 'gone') throw badBody('ended too early')
  const value = parse(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw badBody(`must be a JSON object, got ${show(value)}`)
  refuseProto(value)
  return value as Readonly<Record<string, unknown>>
}

/** Refuses members that nobody would read: a misspelt one would silently change nothing. */
export function refuseUnknown<Body>(body: Readonly<Record<string, unknown>>, known: readonly (keyof Body & string)[]): void {
  const unknown = Object.keys(body).filter((name) => !known.includes(name as keyof Body & string))
  if (unknown.length === 0) return
  const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`
  throw new ApiError('bad_request', `unknown fields: ${unknown.slice(0, 10).map(show).join(', ')}; ${expected}`)
}

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) throw badBody('is empty: expected a JSON object')
  let text: string
  try {
    text = UTF_8.decode(bytes)
  } catch {
    throw badBody('is not valid UTF-8')
  }
  const read = readRequestJson(text)
  if ('syntax' in read) throw badBody(`cannot be read: ${read.syntax}`)
  return read.value
}

/** What follows may copy members by name. */
function refuseProto(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (name === '__proto__') throw badBody('has a member "__proto__", which is not allowed')
    refuseProto(member)
  }
}

function badBody(problem: string): ApiError {
  return new ApiError('bad_request', `the body ${problem}`)
}

const MAX_CHARACTERS = 1000

/** Why an operator changes something: every change is logged with it. */
export function readReason(value: unknown): string {
  if (value === undefined || value === null || value === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (typeof value !== 'string') throw new ApiError('missing_reason', 'reason: expected a text')
  const reason = value.trim()
  if (reason === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (reason.length > MAX_CHARACTERS) throw new ApiError('bad_request', `reason: expected at most ${MAX_CHARACTERS} characters`)
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(reason)) throw new ApiError('bad_request', 'reason: expected one line, without control characters')
  return reason
}

/** The rule that is asked about. */
export function findRule(plan: Plan | undefined, { policy, rule: name }: { readonly policy: string; readonly rule: string }): PlanRule {
  const rule = findPolicy(plan, policy).rules.find((each) => each.name === name)
  if (rule === undefined) throw new ApiError('unknown_rule', `policy ${show(policy)} has no rule ${show(name)}`)
  return rule
}

/** The policy that is asked about. */
export function findPolicy(plan: Plan | undefined, id: string): PlanPolicy {
  if (plan === undefined) throw new ApiError('unknown_policy', `there is no policy ${show(id)}: no bundle is active`)
  const policy = plan.policiesById.get(id)
  if (policy === undefined) throw new ApiError('unknown_policy', `there is no policy ${show(id)} in the active bundle`)
  return policy
}
