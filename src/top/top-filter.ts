import type { ShownCaller } from './shown-caller.ts'

/** Whose callers are asked for: all, or those of a policy, or of one of its rules. */
export interface TopFilter {
  readonly policy?: string | undefined
  readonly rule?: string | undefined
}

export function isAsked(filter: TopFilter, { policy, rule }: Pick<ShownCaller, 'policy' | 'rule'>): boolean {
  return (filter.policy === undefined || filter.policy === policy) && (filter.rule === undefined || filter.rule === rule)
}
