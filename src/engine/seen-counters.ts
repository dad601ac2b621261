import type { PlanRule } from '../policy/plan.ts'
import type { Group } from './decision.ts'
import { type CounterStatus, statusOf } from './explain/inspection.ts'
import { isAwaited, type OpenReservations } from './open-reservations.ts'
import { bundleRule } from './overrides/rule-overrides.ts'

export interface ExplainedCounter extends CounterStatus {
  /** Time until the counter could cover this request, in milliseconds: 0 means now, Infinity never. */
  readonly waitMs: number
}

/** The counters that a decision looked at without taking from them, in their state before the decision. */
export class SeenCounters {
  /** Whether the store was asked about the enforcing policies, and about those in shadow mode. */
  hasEnforcing = false
  hasShadows = false
  readonly #byRule = new Map<PlanRule, ExplainedCounter[]>()

  /** Returns the counters of a rule of the bundle. The list is empty if the rule does not apply or the store is unavailable. */
  of(rule: PlanRule): readonly ExplainedCounter[] {
    return this.#byRule.get(rule) ?? []
  }

  /** Copies what the store returned for a group, which may then be reused. */
  note({ rules, ruleCount, firstRows, charges, results }: Group, open: OpenReservations | undefined): void {
    const { values, valuesFrom } = charges
    const { levels, waitsMs, wallMs } = results
    for (let i = 0; i < ruleCount; i++) {
      const rule = rules[i]!
      const seen = rule.counters.map((counter, c) => {
        const row = firstRows[i]! + c
        const reserved =
          open && isAwaited(counter) ? open.sumOf(counter, values, valuesFrom[row]!, valuesFrom[row + 1]!, wallMs) : undefined
        return { ...statusOf(counter, levels[row]!, wallMs, reserved), waitMs: waitsMs[row]! }
      })
      this.#byRule.set(bundleRule(rule), seen)
    }
  }
}
