import type { PlanRule } from '../policy/plan.ts'
import type { Group } from './decision.ts'
import { bundleRule } from './overrides/rule-overrides.ts'
import { type CounterStatus, statusOf } from './questions/inspection.ts'

export interface ExplainedCounter extends CounterStatus {
  /** How long until it could cover this request: 0 = now, Infinity = never. */
  readonly waitMs: number
}

/** The counters that a decision looked at which takes nothing, as they were before it. */
export class SeenCounters {
  /** Whether the store was asked about the enforcing policies, and about those in shadow mode. */
  hasEnforcing = false
  hasShadows = false
  readonly #byRule = new Map<PlanRule, ExplainedCounter[]>()

  /** Of a rule as it is in the bundle. Empty where it does not apply, or the store is unavailable. */
  of(rule: PlanRule): readonly ExplainedCounter[] {
    return this.#byRule.get(rule) ?? []
  }

  /** What the store said about a group. The group may be used again. */
  note({ rules, ruleCount, firstRows, results }: Group): void {
    const { levels, waitsMs, wallMs } = results
    for (let i = 0; i < ruleCount; i++) {
      const rule = rules[i]!
      const row = firstRows[i]!
      const seen = rule.counters.map((counter, c) => ({ ...statusOf(counter, levels[row + c]!, wallMs), waitMs: waitsMs[row + c]! }))
      this.#byRule.set(bundleRule(rule), seen)
    }
  }
}
