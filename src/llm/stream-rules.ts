import type { DialectName } from './dialects/dialect.ts'
import type { LlmSettings } from './llm-request.ts'
import type { TokenCounts } from './usage.ts'

/** The part of a rule that the filter uses. */
export interface StreamRule {
  readonly policy: { readonly isShadow: boolean }
  /** Defined for all rules passed to the filter. */
  readonly llm: LlmSettings | undefined
}

export interface StreamFilterOptions<Rule extends StreamRule> {
  /** The LLM rules that apply to this request and have streaming enabled, in bundle order. */
  readonly rules: readonly Rule[]
  readonly promptEstimate: number
  /** Whether the client asked for a stream. A stream that it did not ask for is counted but never changed. */
  readonly isActivated: boolean
  /** Whether the provider's count was requested although the client did not ask for it. An event that contains nothing else is then not passed on. */
  readonly hidesUsage?: boolean
  /** Returns whether all rules are currently in shadow mode, so that the stream is not cut. */
  readonly isShadowed?: () => boolean
  /** The API of a stream of which nothing is understood, if the request's path says which. */
  readonly dialect?: DialectName | undefined
  /** Measures what the stream uses of budgets whose reservations grow; undefined if there are none. */
  readonly meter?: StreamMeter<Rule> | undefined
  /** Whether text after the end of the stream is not passed on: the stream is settled by then, so that such text would be free. */
  readonly stopsAtEnd?: boolean
  readonly maxEventBytes?: number
}

/** Measures a stream while it passes. */
export interface StreamMeter<Rule extends StreamRule> {
  /** Number of completion tokens from which on it must be told what the stream has used. */
  readonly noticeAt: number
  /** Notes what the stream has used. Returns what ends the stream, if the budget of an enforcing rule is used up. */
  notice(used: TokenCounts): BudgetEnd<Rule> | undefined
}

/** A rule whose budget a stream has used up, and the code that an error has then. */
export interface BudgetEnd<Rule extends StreamRule> {
  readonly rule: Rule
  readonly code: 'tpd_exceeded' | 'budget_exceeded'
}

/** A rule that a stream has exceeded: its max_completion_tokens, or its budget. */
export interface StreamExcess<Rule extends StreamRule = StreamRule> {
  readonly rule: Rule
  readonly completionTokens: number
  readonly cause: 'max_completion_tokens' | 'budget'
}
