import type { PlanRule } from '../policy/plan.ts'
import { ChargeResults } from '../store/charge-results.ts'
import { Charges } from '../store/charges.ts'

/** The rules that are taken as one, all or none: those of all enforcing policies, or of one policy in shadow mode. */
export class Group {
  readonly charges = new Charges()
  /** What the store says to them. */
  readonly results = new ChargeResults()
  /** The first `ruleCount` rules are charged; for each, the row where its counters begin. */
  ruleCount = 0
  readonly rules: PlanRule[] = []
  readonly firstRows: number[] = []

  clear(): void {
    this.charges.clear()
    this.ruleCount = 0
  }

  add(rule: PlanRule, firstRow: number): void {
    this.rules[this.ruleCount] = rule
    this.firstRows[this.ruleCount++] = firstRow
  }
}
