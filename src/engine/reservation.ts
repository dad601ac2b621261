import type { PlanRule } from '../policy/plan.ts'
import type { Taken } from '../store/answers.ts'
import type { ActivePlan } from './active-plan.ts'

/** What the LLM rules took for one request before it was known what it would cost. */
export interface Reservation {
  /** The plan that held then: a request keeps it until it is settled. */
  readonly active: ActivePlan
  readonly holds: readonly Hold[]
}

/** One rule's part. Rules of shadow policies hold on counters of their own. */
export interface Hold {
  readonly rule: PlanRule
  /** Taken from each of the rule's counters. */
  readonly tokens: number
  readonly values: readonly string[]
  /** A settlement goes to the window and to the counters that it was taken from. */
  readonly taken: Taken
}
