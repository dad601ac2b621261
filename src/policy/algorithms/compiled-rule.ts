import type { Cost } from '../../costs/cost.ts'
import type { Limit } from '../../limiter/limit.ts'
import type { LlmSettings } from '../../llm/llm-request.ts'

/** What an algorithm makes of its configuration, besides limits. */
export interface CompiledRule {
  readonly cost: Cost
  /** The settings of a rule that reads LLM responses. */
  readonly llm?: LlmSettings | undefined
  /** Streams are asked for the provider's count. */
  readonly asksUsage?: boolean
  /** What a rule does that rejects all it covers. */
  readonly block?: Block | undefined
}

export interface Block {
  /** Unix time; Infinity: never. */
  readonly expiresAtMs: number
  /** What clients of the proxy read. */
  readonly message: string | undefined
  /** Whether it also ends streams under way. */
  readonly cutsStreams: boolean
}

export interface PartLimit {
  readonly part: PlanCounter['part']
  readonly limit: Limit
  readonly reason: LimitReason
  /** How much of it is 1 in the RateLimit fields; default 1. */
  readonly unit?: number
  /** What distinguishes the counter from others besides policy, rule, mode, algorithm, keys and part. */
  readonly identity?: readonly string[]
}

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
