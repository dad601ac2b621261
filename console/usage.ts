import type { RuleUsage } from '../src/admin/api/usage/rule-usage.ts'
import type { Counter } from './callers/caller.ts'
import { type Poll, usePoll } from './live.ts'

/** Budgets change with each response, but nobody reads them every two seconds. */
const USAGE_MS = 5000

/** What `GET usage` says. */
export interface Usage {
  readonly since: string
  readonly total: number
  readonly rules: readonly SpendingRule[]
}

/** A rule that counts tokens or money. */
export interface SpendingRule extends Omit<RuleUsage, 'used'> {
  readonly mode: 'enforce' | 'shadow'
  readonly limit_keys: readonly string[]
  readonly algorithm: string
  readonly algorithm_config: Readonly<Record<string, unknown>>
  /** Null where responses are not seen. */
  readonly used: RuleUsage['used'] | null
  /** Null where each caller has its own. */
  readonly counters: readonly Counter[] | null
}

export function useUsage(): Poll<Usage> {
  return usePoll<Usage>('usage', USAGE_MS)
}
