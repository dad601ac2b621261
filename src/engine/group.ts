import type { PlanRule } from '../policy/plan.ts'
import { ChargeResults } from '../store/charge-results.ts'
import { Charges } from '../store/charges.ts'

/** Rules that are taken together, all or none: those of all enforcing policies, or of one shadow policy. */
export class Group {
  readonly charges = new Charges()
  readonly results = new ChargeResults()
  /** The first `ruleCount` rules are charged; `firstRows` has the row of each rule's first counter. */
  ruleCount = 0
  readonly rules: PlanRule[] = []
  readonly firstRows: number[] = []
  /** Rows that do not pass, and would if what requests in flight have reserved were given back. */
  readonly awaiting: number[] = []

  clear(): void {
    this.charges.clear()
    this.ruleCount = 0
    if (this.awaiting.length > 0) this.awaiting.length = 0
  }

  add(rule: PlanRule, firstRow: number): void {
    this.rules[this.ruleCount] = rule
    this.firstRows[this.ruleCount++] = firstRow
  }
}
