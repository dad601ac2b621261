import type { SpendingRule, UsedAmounts } from '../instance-types.ts'

/** A rule that counts tokens or money. One that did the other in an earlier bundle is another one. */
export type UsageRuleName = Pick<SpendingRule, 'policy' | 'rule' | 'unit'>

export interface RuleUsage extends UsageRuleName {
  readonly used: UsedAmounts
}

/** By the metrics of all threads. */
export interface UsageReport {
  /** When counting began. */
  readonly since: string
  /** Of the rules that were asked about, in their order. */
  readonly asked: readonly RuleUsage[]
  /** The rules that used most lately: the first of those that count tokens, of those that count money, and so on. */
  readonly most: readonly RuleUsage[]
}
