import type { LlmRequest } from '../llm/llm-request.ts'
import type { TokenCounts } from '../llm/usage.ts'

/** The facts of a request that its cost may depend on, before it is decided. */
export interface RequestFacts {
  /** Normalised. */
  readonly path: string
  /** What the body says; undefined where none was read. */
  readonly body: LlmRequest | undefined
  /** The number given with the question; 1 where there is none. */
  readonly given: number
}

/** What a rule takes from each of its counters, in the unit that its limits count: requests, tokens, money, requests in flight. */
export interface Cost {
  /** Whether it depends on the body: until that is read, it is unknown. */
  readonly needsBody: boolean
  /** Whether takes are mostly of one token and never settled, so that a store may pre-fetch tokens. */
  readonly isLeasable: boolean
  /** What the request takes. Called for each decision, so it must not allocate. */
  of(facts: RequestFacts): number
  /** How the amount is corrected when the request ends. Undefined: never. */
  readonly settling: Settling | undefined
}

/** Corrects an amount that was taken before the actual usage was known. */
export interface Settling {
  /** Whether the amount that this request takes will be settled. */
  holds(facts: RequestFacts): boolean
  /**
   * The actual amount; undefined: the amount stays as it was taken. Called on the cost that took it, so that the prices and limits of
   * that moment apply, even if a later bundle changes them.
   */
  settled(amount: number, usage: Usage): number | undefined
}

/** What a request has used, as far as that is known at its end. */
export type Usage = 'nothing' | 'unknown' | TokenUsage

interface TokenUsage {
  readonly tokens: TokenCounts
  /** The response was a stream of events. */
  readonly isStreamed: boolean
}
