import type { CallerMatch } from '../policy/caller-match.ts'
import type { ShownCaller } from './caller-ids.ts'

/** Selects all callers, those of one policy, those of one of its rules, or those with given values. */
export interface TopFilter {
  readonly policy?: string | undefined
  readonly rule?: string | undefined
  readonly caller?: CallerMatch | undefined
  /** Of those near a limit, only callers of rules that count tokens or money. */
  readonly hasBudget?: boolean | undefined
}

/** Whether callers of this rule are asked for, whatever their values. */
export function isRuleAsked(filter: TopFilter, { policy, rule }: Pick<ShownCaller, 'policy' | 'rule'>): boolean {
  return (filter.policy === undefined || filter.policy === policy) && (filter.rule === undefined || filter.rule === rule)
}
