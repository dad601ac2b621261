import type { Limit } from '../limiter/limit.ts'

export interface PlanCounter {
  readonly index: number
  /** Policy id, rule name, mode, algorithm, limit_keys and part, as text: the same after a reload that keeps them. */
  readonly identity: readonly string[]
  /** Which of its rule's counters it is. */
  readonly part: 'bucket' | 'window' | 'minute' | 'day' | 'budget' | 'in_flight'
  readonly limit: Limit
  /** Whether tokens may be pre-fetched: the rule's cost says so. */
  readonly isLeasable: boolean
  /** Whether takes are corrected later. */
  readonly isSettled: boolean
  /** The most that the limit can grant at one moment. */
  readonly size: number
  /** How much of it is 1 in the RateLimit fields, and wherever else people see it. */
  readonly unit: number
  readonly reason: LimitReason
  /** The RateLimit-Limit header's value. */
  readonly limitText: string
}

export type LimitReason =
  | 'token_bucket_exceeded'
  | 'quota_exceeded'
  | 'tpm_exceeded'
  | 'tpd_exceeded'
  | 'budget_exceeded'
  | 'concurrency_exceeded'
