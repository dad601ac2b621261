import type { Allowed, Decision, Rejected } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http1/header-fields.ts'
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
}

/** An answer without a decision: the request could not be decided, or answering it failed. */
export interface RefusedAnswer {
  readonly status: number
  readonly decision: undefined
  readonly refusal: Reason
  readonly isDebug: false
  readonly latencyMs: 0
  readonly reservation: undefined
}

/** Returns the answer to a decision that is neither counted nor logged. */
export function answerOf(decision: Decision): DecisionAnswer {
  return decision.action === 'refuse' ? refusedAnswer(decision.reason) : decidedAnswer(decision, false, 0)
}

export function decidedAnswer(decision: Allowed | Rejected, isDebug: boolean, latencyMs: number): DecidedAnswer {
  // The reason of an allowed request may be that of a would-reject.
  const status = decision.action === 'reject' ? REASONS[decision.reason].status : 200
  return { status, decision, refusal: undefined, isDebug, latencyMs, reservation: undefined }
}

export function refusedAnswer(refusal: Reason): RefusedAnswer {
  return { status: REASONS[refusal].status, decision: undefined, refusal, isDebug: false, latencyMs: 0, reservation: undefined }
}

/** Returns the header fields of an answer, without those that every response has. */
export function answerHeaders({ decision, refusal, isDebug, latencyMs, reservation }: DecisionAnswer): HeaderList {
  if (decision === undefined) return ['X-Edge-Reason', refusal]
  const headers = decisionHeaders(decision, isDebug, latencyMs)
  if (reservation !== undefined) headers.push(RESERVATION_FIELD, reservation)
  return headers
}

/** Carries the token of a reservation. */
export const RESERVATION_FIELD = 'X-Edge-Reservation'

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
  decision.descriptors.slice(0, MAX_DESCRIPTORS).forEach(({ key, value }, index) => {
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Key`, headerSafe(key))
    headers.push(`X-Edge-Debug-Descriptor-${index + 1}-Value`, headerSafe(value))
  })
}

function modeOf({ policy, isShadowed }: Allowed | Rejected): string {
  if (policy === undefined) return 'none'
  return isShadowed ? 'shadow' : policy.mode
}

/** Callers choose these values, so control characters and non-Latin-1 characters are replaced and the length is bounded. */
function headerSafe(text: string): string {
  return text.slice(0, MAX_VALUE_CHARACTERS).replace(/[^\x20-\x7e\xa0-\xff]/g, '?')
}
