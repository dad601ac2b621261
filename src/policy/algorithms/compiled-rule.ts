import type { Cost } from '../../costs/cost.ts'
import type { Limit } from '../../limiter/limit.ts'
import type { LlmSettings } from '../../llm/llm-request.ts'

/** A rule's algorithm and its configuration, compiled. Limits are compiled separately (`rule-limits.ts`). */
export interface CompiledRule {
  readonly cost: Cost
  /** The settings of a rule that watches streams: token_bucket_llm, and cost_budget with `reserve`. */
  readonly llm?: LlmSettings | undefined
  /** Whether the proxy asks the provider to report the usage of streams whose client did not ask for it. */
  readonly asksUsage?: boolean
  /** Whether WebSockets are refused where the rule applies. */
  readonly refusesSockets?: boolean
  /** Set if the rule rejects every request it covers. */
  readonly block?: Block | undefined
}

export interface Block {
  /** Unix time in milliseconds; Infinity if the block never expires. */
  readonly expiresAtMs: number
  /** Text that the proxy sends to blocked clients. */
  readonly message: string | undefined
  /** Whether the block also ends streams that are already open. */
  readonly cutsStreams: boolean
}

export interface PartLimit {
  readonly part: PlanCounter['part']
  readonly limit: Limit
  readonly reason: LimitReason
  /** The amount that counts as 1 in the RateLimit fields; default 1. */
  readonly unit?: number
  /** Values that distinguish this counter from others with the same policy, rule, mode, algorithm, keys and part. */
  readonly identity?: readonly string[]
}

export interface PlanCounter {
  readonly index: number
  /** Policy id, rule name, mode, algorithm, limit_keys, the part's own values, and part. A reload that keeps them keeps the counter. */
  readonly identity: readonly string[]
  /** Tells the counters of one rule apart. */
  readonly part: 'bucket' | 'window' | 'minute' | 'day' | 'budget' | 'in_flight'
  readonly limit: Limit
  /** Whether the rule's cost allows tokens to be pre-fetched. */
  readonly isLeasable: boolean
  /** Whether takes are corrected later. */
  readonly isSettled: boolean
  /** The most that the limit can grant at one moment. */
  readonly size: number
  /** The amount that counts as 1 in the RateLimit fields, and wherever else people see it. */
  readonly unit: number
  readonly reason: LimitReason
  /** The RateLimit-Limit header's value. */
  readonly limitText: string
  /** The parameters of the RateLimit-Policy header's value; undefined if it is not sent. */
  readonly quotaText: string | undefined
}

export type LimitReason =
  | 'token_bucket_exceeded'
  | 'quota_exceeded'
  | 'tpm_exceeded'
  | 'tpd_exceeded'
  | 'budget_exceeded'
  | 'concurrency_exceeded'
