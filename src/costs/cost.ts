import type { LlmRequest } from '../llm/llm-request.ts'
import type { TokenCounts } from '../llm/usage.ts'

/** All that a cost may know of a request before it is decided. */
export interface RequestFacts {
  /** In its normalised form. */
  readonly path: string
  /** What the body says; undefined where none was read. */
  readonly body: LlmRequest | undefined
  /** The number given with the question; 1 where there is none. */
  readonly given: number
}

/** What a rule takes from each of its counters, in the unit that its limits count: requests, tokens, money, requests in flight. */
export interface Cost {
  /** Whether it depends on the body: until that is read, nobody can say whether it fits. */
  readonly needsBody: boolean
  /** Whether takes are for good and mostly of one, so that a store may pre-fetch them. */
  readonly isLeasable: boolean
  /** What the request takes. Called for each decision: it allocates nothing. */
  of(facts: RequestFacts): number
  /** What happens to the amount when the request is over. Undefined: it is taken for good. */
  readonly settling: Settling | undefined
}

/** How an amount that was taken ahead of the facts is corrected by them. */
export interface Settling {
  /** Whether somebody will settle what this request takes. If nobody will, it stands. */
  holds(facts: RequestFacts): boolean
  /**
   * What the amount comes to; undefined: it stays as it was taken. Asked of the cost that took it, so whatever a later bundle
   * says, the prices and bounds of that moment apply.
   */
  settled(amount: number, usage: Usage): number | undefined
}

/** What is known, when a request ends, of what it used. */
export type Usage = 'nothing' | 'unknown' | TokenUsage

interface TokenUsage {
  readonly tokens: TokenCounts
  /** The response was a stream of events. */
  readonly isStreamed: boolean
}
