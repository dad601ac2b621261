import type { PlanRule } from '../policy/plan.ts'
import type { Group } from './group.ts'
import { bundleRule } from './variant.ts'

/** A caller has spent or reserved this share of a budget, for the first time in its window. */
export interface BudgetWarning {
  readonly rule: PlanRule
  /** Of the caller, in the order of the rule's limit_keys; none where it is known by its digest alone. */
  readonly values: readonly string[]
  /** Names the caller, where a gateway settled what it took. */
  readonly caller?: string | undefined
  readonly percent: number
}

export type OnBudgetWarning = (warning: BudgetWarning) => void

/** The warnings of a group that was taken. */
export function* warningsOf({ rules, ruleCount, firstRows, charges, results }: Group): Generator<BudgetWarning> {
  const { values, valuesFrom } = charges
  for (let i = 0; i < ruleCount; i++) {
    const rule = rules[i]!
    for (let c = 0; c < rule.counters.length; c++) {
      const row = firstRows[i]! + c
      const percent = results.warnings[row]!
      if (percent > 0) yield { rule: bundleRule(rule), values: values.slice(valuesFrom[row]!, valuesFrom[row + 1]!), percent }
    }
  }
}
