import type { Plan, PlanRule } from '../policy/plan.ts'
import type { Group } from './decision.ts'
import { bundleRule } from './overrides/rule-overrides.ts'
import type { UsageLabels } from './reservation.ts'

/** Observes callers while decisions are made. Its arguments are valid only during the call. It must not throw. */
export interface CallerWatch {
  /** Called when the rule rejects a request. The caller's values are in the order of its limit_keys and begin at index `from`. */
  onReject(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void
  /** Called when the store was asked about a group. Levels are those after the take, or the current ones if the group does not fit. */
  onLevels(group: Group, plan: Plan, nowMs: number): void
}

/** Reports that a caller has spent or reserved this share of a budget for the first time in its window. */
export interface BudgetWarning {
  readonly rule: PlanRule
  /** The caller's values in the order of the rule's limit_keys; empty if it is known only by its digest. */
  readonly values: readonly string[]
  /** Digest of the caller, if a gateway settled what it took. */
  readonly caller?: string | undefined
  readonly percent: number
  /** What `usage.labels` says about the request; empty if a gateway settled it, which does not tell. */
  readonly labels: UsageLabels
}

export type OnBudgetWarning = (warning: BudgetWarning) => void

/** Returns the warnings of a group that was taken. */
export function* warningsOf({ rules, ruleCount, firstRows, charges, results }: Group, labels: UsageLabels): Generator<BudgetWarning> {
  const { values, valuesFrom } = charges
  for (let i = 0; i < ruleCount; i++) {
    const rule = rules[i]!
    for (let c = 0; c < rule.counters.length; c++) {
      const row = firstRows[i]! + c
      const percent = results.warnings[row]!
      if (percent > 0) yield { rule: bundleRule(rule), values: values.slice(valuesFrom[row]!, valuesFrom[row + 1]!), percent, labels }
    }
  }
}
