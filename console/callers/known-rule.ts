import type { CallerRule, CallersJson } from '../../src/admin/api/caller-types.ts'

interface RuleName {
  readonly policy: string
  readonly rule: string
}

export function isSameRule(a: RuleName, b: RuleName): boolean {
  return a.policy === b.policy && a.rule === b.rule
}

/** Whether there is more to say about a rule than that the caller's counters are full. */
export function isKnown(rule: CallerRule, { top }: CallersJson): boolean {
  if (rule.counted || rule.override !== null || rule.algorithm === 'block') return true
  return top?.rejected.some((row) => isSameRule(row, rule)) === true
}
