import type { Plan, PlanRule } from '../policy/plan.ts'
import type { Group } from './group.ts'

/** Is told of callers while decisions are made. What it is given is valid during the call alone. Must not throw. */
export interface CallerWatch {
  /** The rule has rejected a request. Its values are in the order of its limit_keys, from `from` on. */
  onReject(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void
  /** The store was asked for a group: its levels are those after the take, or the current ones where it does not fit. */
  onLevels(group: Group, plan: Plan, nowMs: number): void
}
