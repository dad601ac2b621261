import type { Allowed, Decision, Refused, Rejected } from '../engine/decision.ts'
import { proxyStatus, REASONS, type Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import { type CallerVerdict, isVerified, type UnknownCaller } from '../request/caller.ts'
import { pushRateLimit, pushReject, resetSeconds } from './rate-limit-fields.ts'

/** The answer that a door sends, in the form of its protocol. */
export type DecisionAnswer = DecidedAnswer | RefusedAnswer

interface DecidedAnswer {
  readonly status: number
  readonly decision: Allowed | Rejected
  readonly refusal: undefined
  /** Whether the request has a debug session, and how long the decision took. */
  readonly isDebug: boolean
  readonly latencyMs: number
  /** Token of the reservation, if the gateway settles it. */
  readonly reservation: string | undefined
  /** The fields with an issued key that the gateway is told to remove, in lower case; undefined if there are none, or the door cannot say it. */
  readonly removedFields: readonly string[] | undefined
}

/** An answer without a decision: the request could not be decided, or answering it failed. */
export interface RefusedAnswer {
  readonly status: number
  readonly decision: undefined
  readonly refusal: Reason
  /** Why nobody knows who sent the request; undefined if it was refused for another reason. */
  readonly caller: UnknownCaller | undefined
  readonly isDebug: boolean
  readonly latencyMs: 0
  readonly reservation: undefined
  readonly removedFields: undefined
}

/** Returns the answer to a decision that is neither counted nor logged. */
export function answerOf(decision: Decision, isProxy = false): DecisionAnswer {
  return decision.action === 'refuse' ? refusedAnswer(decision.reason, isProxy, decision) : decidedAnswer(decision, false, 0)
}

export function decidedAnswer(decision: Allowed | Rejected, isDebug: boolean, latencyMs: number): DecidedAnswer {
  // The reason of an allowed request may be that of a would-reject.
  const status = decision.action === 'reject' ? REASONS[decision.reason].status : 200
  return { status, decision, refusal: undefined, isDebug, latencyMs, reservation: undefined, removedFields: undefined }
}

/** `refused` is the engine's own refusal, if it is one. */
export function refusedAnswer(refusal: Reason, isProxy = false, refused?: Refused, isDebug = false): RefusedAnswer {
  const status = isProxy ? proxyStatus(refusal) : REASONS[refusal].status
  const caller = refused?.caller
  return { status, decision: undefined, refusal, caller, isDebug, latencyMs: 0, reservation: undefined, removedFields: undefined }
}

/** Returns the header fields of an answer, without those that every response has. */
export function answerHeaders(answer: DecisionAnswer): HeaderList {
  const { decision, isDebug, latencyMs, reservation, removedFields } = answer
  if (decision === undefined) return refusalHeaders(answer)
  const headers = decisionHeaders(decision, isDebug, latencyMs)
  if (reservation !== undefined) headers.push(RESERVATION_FIELD, reservation)
  if (removedFields !== undefined) headers.push(REMOVED_FIELDS_FIELD, removedFields.join(','))
  return headers
}

function refusalHeaders({ status, refusal, caller, isDebug }: RefusedAnswer): HeaderList {
  const headers: HeaderList = []
  if (caller !== undefined) headers.push(...challengeOf(status, caller))
  headers.push('X-Edge-Reason', refusal)
  if (isDebug && caller !== undefined) pushCaller(headers, caller)
  return headers
}

/**
 * RFC 6750 3.1: a bad credential is called so, and a request without one is not. While its keys are not available, nobody knows whether a credential is bad,
 * and a client that is told so would throw it away.
 */
function challengeOf(status: number, { problem }: UnknownCaller): HeaderList {
  if (status !== 401) return ['Retry-After', '1']
  if (problem === 'two_credentials') return ['WWW-Authenticate', 'Bearer error="invalid_request"']
  const isBad = problem !== 'no_credential' && problem !== 'keys_unavailable' && problem !== 'busy'
  return ['WWW-Authenticate', isBad ? 'Bearer error="invalid_token"' : 'Bearer']
}

/** Carries the token of a reservation. */
export const RESERVATION_FIELD = 'X-Edge-Reservation'
/** Names the fields, separated by commas, that Envoy removes from the request before it forwards it. */
export const REMOVED_FIELDS_FIELD = 'X-Envoy-Auth-Headers-To-Remove'

/** Returns the fields about the caller's limit and, with `isDebug`, those for operators. */
function decisionHeaders(decision: Allowed | Rejected, isDebug: boolean, latencyMs: number): HeaderList {
  const headers: HeaderList = []
  if (decision.action === 'reject') pushReject(headers, decision)
  else if (decision.limit !== undefined) pushRateLimit(headers, decision.limit, resetSeconds(decision.limit))
  if (isDebug) pushDebug(headers, decision, latencyMs)
  return headers
}

const MAX_VALUE_CHARACTERS = 256
// A bundle may use many descriptors for one request, and clients limit the size of a response head.
const MAX_DESCRIPTORS = 32

/** Adds the fields for an operator with a debug session. */
function pushDebug(headers: HeaderList, decision: Allowed | Rejected, latencyMs: number): void {
  const { policy, rule } = decision
  headers.push(
    'X-Edge-Debug-Decision',
    decision.action,
    'X-Edge-Debug-Mode',
    modeOf(decision),
    'X-Edge-Debug-Reason',
    decision.reason,
    'X-Edge-Debug-Policy',
    policy?.id ?? 'none',
    'X-Edge-Debug-Rule',
    rule?.name ?? 'none',
    'X-Edge-Debug-Latency-Us',
    `${Math.round(latencyMs * 1000)}`,
    'X-Edge-Debug-Matched-Policies',
    `${decision.matchedPolicies}`,
  )
  if (decision.caller !== undefined) pushCaller(headers, decision.caller)
  decision.descriptors.slice(0, MAX_DESCRIPTORS).forEach(({ key, value }, index) => {
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Key`, headerSafe(key))
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Value`, headerSafe(value))
  })
}

function pushCaller(headers: HeaderList, caller: CallerVerdict): void {
  if (isVerified(caller)) headers.push('X-Edge-Debug-Caller', headerSafe(caller.id))
  else headers.push('X-Edge-Debug-Caller-Problem', caller.problem)
}

function modeOf({ policy, isShadowed }: Allowed | Rejected): string {
  if (policy === undefined) return 'none'
  return isShadowed ? 'shadow' : policy.mode
}

/** Callers choose these values, so control characters and non-Latin-1 characters are replaced and the length is bounded. */
function headerSafe(text: string): string {
  return text.slice(0, MAX_VALUE_CHARACTERS).replace(/[^\x20-\x7e\xa0-\xff]/g, '?')
}
