import type { Allowed, Decision, Rejected } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http/header-list.ts'
import { decisionHeaders } from './decision-headers.ts'

/** What a door sends back, in whatever form its protocol has for it. */
export type DecisionAnswer = DecidedAnswer | RefusedAnswer

interface DecidedAnswer {
  readonly status: number
  readonly decision: Allowed | Rejected
  readonly refusal: undefined
  /** Whether a debug session asks, and how long the decision took. */
  readonly isDebug: boolean
  readonly latencyMs: number
  /** The token of what was taken, where the gateway settles it. */
  readonly reservation: string | undefined
}

/** Nothing was decided, and nothing taken. */
export interface RefusedAnswer {
  readonly status: number
  readonly decision: undefined
  readonly refusal: Reason
  readonly isDebug: false
  readonly latencyMs: 0
  readonly reservation: undefined
}

/** The answer to a decision that nobody counts or logs. */
export function answerOf(decision: Decision): DecisionAnswer {
  return decision.action === 'refuse' ? refusedAnswer(decision.reason) : decidedAnswer(decision, false, 0)
}

export function decidedAnswer(decision: Allowed | Rejected, isDebug: boolean, latencyMs: number): DecidedAnswer {
  // An allowed request may carry the reason of a would-reject.
  const status = decision.action === 'reject' ? REASONS[decision.reason].status : 200
  return { status, decision, refusal: undefined, isDebug, latencyMs, reservation: undefined }
}

export function refusedAnswer(refusal: Reason): RefusedAnswer {
  return { status: REASONS[refusal].status, decision: undefined, refusal, isDebug: false, latencyMs: 0, reservation: undefined }
}

/** The header fields of an answer, without those that every response has. */
export function answerHeaders({ decision, refusal, isDebug, latencyMs, reservation }: DecisionAnswer): HeaderList {
  if (decision === undefined) return ['X-Edge-Reason', refusal]
  const headers = decisionHeaders(decision, isDebug, latencyMs)
  if (reservation !== undefined) headers.push(RESERVATION_FIELD, reservation)
  return headers
}

/** Carries a reservation's token. */
export const RESERVATION_FIELD = 'X-Edge-Reservation'
