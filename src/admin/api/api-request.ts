import type { IncomingMessage } from 'node:http'
import { readWholeBody } from '../../listen/node-http/read-body.ts'
import type { Plan, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { readRequestJson } from '../../text/json-document.ts'
import { show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { ApiError } from './api-error.ts'

/** No request needs this many: they have a value for each key of a rule, and a few names. */
const MAX_PARAMETERS = 100

/** Parses the query of a target, with or without its `?`. Thousands of parameters would block the thread, so their number is bounded. */
export function parseQuery(text: string): URLSearchParams {
  let count = 1
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++count > MAX_PARAMETERS) throw new ApiError('bad_request', `the URL has more than ${MAX_PARAMETERS} parameters`)
  return new URLSearchParams(text)
}

/** Returns the parameters of a URL by name. Throws if one is repeated or unknown. */
export function readQuery<Name extends string>(query: URLSearchParams, known: readonly Name[]): Partial<Record<Name, string>> {
  const read: Partial<Record<Name, string>> = {}
  for (const [name, value] of query) {
    if (!known.includes(name as Name)) {
      const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`
      throw new ApiError('bad_request', `unknown parameter ${show(name)}; ${expected}`)
    }
    if (read[name as Name] !== undefined) throw new ApiError('bad_request', `${name} is given more than once`)
    read[name as Name] = value
  }
  return read
}

/** Reads a whole number from 1 to `max`. Returns `byDefault` if it is absent. */
export function readCount(name: string, text: string | undefined, byDefault: number, max: number): number {
  if (text === undefined) return byDefault
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > max) throw new ApiError('bad_request', `${name}: expected a whole number from 1 to ${max}, got ${show(text)}`)
  return count
}

/** This is below the size at which the connection is closed, so that the response still arrives. */
const MAX_BYTES = 64 * 1024
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the members of a request's JSON body, which must be an object. Its Content-Type does not matter. */
export async function readJsonBody(req: IncomingMessage, maxBytes = MAX_BYTES): Promise<Readonly<Record<string, unknown>>> {
  const { 'content-encoding': coding = 'identity', 'content-length': length = '0' } = req.headers
  if (coding.toLowerCase() !== 'identity') throw badBody('must not be compressed: leave Content-Encoding out')
  // If Content-Length says that the body is too large, it is refused without being read.
  const body = Number(length) > maxBytes ? 'too_large' : await readWholeBody(req, maxBytes)
  if (body === 'too_large') throw badBody(`must not be larger than ${maxBytes / 1024} KiB`)
  if (body === 'gone') throw badBody('ended too early')
  const value = parse(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw badBody(`must be a JSON object, got ${show(value)}`)
  refuseProto(value)
  return value as Readonly<Record<string, unknown>>
}

/** Refuses unknown members, because a misspelt one would silently change nothing. */
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

/** Code that runs later may copy members by name. */
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

/** Reads an operator's reason for a change. Every change is logged with its reason. */
export function readReason(value: unknown): string {
  if (value === undefined || value === null || value === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (typeof value !== 'string') throw new ApiError('missing_reason', 'reason: expected a text')
  const reason = value.trim()
  if (reason === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (reason.length > MAX_CHARACTERS) throw new ApiError('bad_request', `reason: expected at most ${MAX_CHARACTERS} characters`)
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(reason)) throw new ApiError('bad_request', 'reason: expected one line, without control characters')
  return reason
}

/** Returns the rule with this name, and throws if the active bundle has none. */
export function findRule(plan: Plan | undefined, { policy, rule: name }: { readonly policy: string; readonly rule: string }): PlanRule {
  const { rules } = findPolicy(plan, policy)
  const rule = rules.find((each) => each.name === name)
  if (rule !== undefined) return rule
  const known = rules.slice(0, MAX_COMPARED).map((each) => each.name)
  throw new ApiError('unknown_rule', `policy ${show(policy)} has no rule ${show(name)}${meantName(name, known)}`)
}

/** Returns the policy with this id, and throws if the active bundle has none. */
export function findPolicy(plan: Plan | undefined, id: string): PlanPolicy {
  if (plan === undefined) throw new ApiError('unknown_policy', `there is no policy ${show(id)}: no bundle is active`)
  const policy = plan.policiesById.get(id)
  if (policy !== undefined) return policy
  const known = plan.policies.slice(0, MAX_COMPARED).map((each) => each.id)
  throw new ApiError('unknown_policy', `there is no policy ${show(id)} in the active bundle${meantName(id, known)}`)
}

/** A bundle may have a hundred thousand names, and comparing a misspelled one with all of them would delay decisions. */
const MAX_COMPARED = 2000

/** Completes a sentence about an unknown name, if a known one is like it. */
function meantName(name: string, known: Iterable<string>): string {
  const meant = closest(name, known)
  return meant === undefined ? '' : `; did you mean ${show(meant)}?`
}
