import type { Settler, Usage } from '../costs/cost.ts'
import { SLICES } from '../limiter/algorithms/in-flight.ts'
import type { InFlightLimit } from '../limiter/limit.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { Taken } from '../store/taken.ts'
import type { ActivePlan } from './active-plan.ts'

/** What was taken for one request before its actual usage is known. */
export interface Reservation {
  /** Settled when the usage is known. */
  readonly charges: readonly ReservedCharge[]
  /** Requests in flight: renewed while they are, and released at their end. */
  readonly holds: readonly ReservedCharge[]
}

/** One rule's part of a reservation. Rules of shadow policies take from counters of their own. */
export interface ReservedCharge {
  /** The plan at the time of the decision. */
  readonly active: ActivePlan
  readonly rule: PlanRule
  /** Taken from each of the rule's counters, in their unit. */
  readonly amount: number
  readonly values: readonly string[]
  /** By the cost that took it, so that the prices and limits of that moment apply. */
  readonly settler: Settler
  /** A settlement goes to the window and the counters that were taken from. */
  readonly taken: Taken
  /** When it was taken, on the monotonic clock. */
  readonly sinceMs: number
}

/** The actual amount. */
export function settledAmount({ settler, amount }: ReservedCharge, usage: Usage): number {
  return settler.settled(amount, usage) ?? amount
}

/** For how long a hold counts that is not renewed. */
export function holdMs({ rule }: ReservedCharge): number {
  return (rule.counters[0]!.limit as InFlightLimit).sliceMs * SLICES
}
