import type { Cost } from '../../costs/cost.ts'
import type { Limit } from '../../limiter/limit.ts'
import type { LlmSettings } from '../../llm/llm-settings.ts'
import type { LimitReason, PlanCounter } from '../plan-counter.ts'

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
