import type { Plan, PlanRule } from '../policy/plan.ts'
import type { Group } from './decision.ts'
import { bundleRule } from './overrides/rule-overrides.ts'

/** Is told of callers while decisions are made. What it is given is valid during the call alone. Must not throw. */
export interface CallerWatch {
  /** The rule has rejected a request. Its values are in the order of its limit_keys, from `from` on. */
  onReject(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void
  /** The store was asked for a group: its levels are those after the take, or the current ones where it does not fit. */
  onLevels(group: Group, plan: Plan, nowMs: number): void
}

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
