import type { Usage } from '../costs/cost.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { Taken } from '../store/taken.ts'
import type { ActivePlan } from './active-plan.ts'

/** What was taken for one request before it was known what it would come to. */
export interface Reservation {
  readonly holds: readonly Hold[]
}

/** One rule's part. Rules of shadow policies hold on counters of their own. */
export interface Hold {
  /** The plan that held then: a request keeps it until it is settled. */
  readonly active: ActivePlan
  readonly rule: PlanRule
  /** Taken from each of the rule's counters, in their unit. */
  readonly amount: number
  readonly values: readonly string[]
  /** A settlement goes to the window and to the counters that it was taken from. */
  readonly taken: Taken
}

/** What a hold comes to, by the cost that took it. */
export function settledAmount({ rule, amount }: Hold, usage: Usage): number {
  return rule.cost.settling!.settled(amount, usage) ?? amount
}
