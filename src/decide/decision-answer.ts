import type { Allowed, Rejected } from '../engine/decision.ts'
import type { Reason } from '../engine/reasons.ts'
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
}

/** Nothing was decided, and nothing taken. */
export interface RefusedAnswer {
  readonly status: number
  readonly decision: undefined
  readonly refusal: Reason
  readonly isDebug: false
  readonly latencyMs: 0
}

/** The header fields of an answer, without those that every response has. */
export function answerHeaders({ decision, refusal, isDebug, latencyMs }: DecisionAnswer): HeaderList {
  return decision === undefined ? ['X-Edge-Reason', refusal] : decisionHeaders(decision, isDebug, latencyMs)
}
