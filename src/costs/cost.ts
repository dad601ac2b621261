import type { LlmRequest, WithoutUsage } from '../llm/llm-request.ts'
import type { TokenCounts } from '../llm/usage.ts'

/** The facts of a request that its cost may depend on, before it is decided. */
export interface RequestFacts {
  /** The normalised path. */
  readonly path: string
  /** What was read from the body; undefined if no body was read. */
  readonly body: LlmRequest | undefined
  /** The models that the request may be sent as, undefined standing for its own; undefined if that is the only one. */
  readonly sendableModels?: readonly (string | undefined)[] | undefined
  /** The number given with the question; 1 if there is none. */
  readonly given: number
  /** Whether a number was given. */
  readonly isGiven: boolean
  /** Whether the caller settles at the end of the request, even if its body was not read. */
  readonly isSettledLater: boolean
  /** Returns a header field by its lower-case name; null if it is repeated. */
  headerText(name: string): string | undefined | null
}

/** The amount that a rule takes from each of its counters, in the unit that its limits count: requests, tokens, money, requests in flight. */
export interface Cost {
  /** Whether the cost depends on the body, and so is unknown until the body is read. */
  readonly needsBody: boolean
  /** Whether takes are mostly of one token and never settled, so that a store may pre-fetch tokens. */
  readonly isLeasable: boolean
  /** The header field that the cost reads, in lower case; undefined if it reads none. */
  readonly header?: string | undefined
  /** Returns what the request takes; AMBIGUOUS if the header field with the cost is repeated. Called for each decision, so it must not allocate. */
  of(facts: RequestFacts): number
  /** Returns the completion tokens that the request's reservation asks for at a time while the stream passes; undefined if it does not grow. */
  growsBy?(facts: RequestFacts): number | undefined
  /** How the amount is corrected later; undefined if it never is. */
  readonly settling: Settling | undefined
}

/** Stands for a cost that two readers could understand differently: the request is refused. */
export const AMBIGUOUS = Number.NaN

/** Corrects amounts that were taken before the actual usage was known. */
export interface Settling extends Settler {
  /** 'usage' settles as soon as the usage is known; 'end' settles when the request is over, whatever it used, and until then renews the hold. */
  readonly at: 'usage' | 'end'
  /** Whether the amount that this request takes will be settled. */
  applies(facts: RequestFacts): boolean
  /** Returns the settler of this request, if settling depends on the request, such as on the prices of its model. */
  forRequest?(facts: RequestFacts): Settler
}

export interface Settler {
  /**
   * Returns the actual amount; undefined if the amount stays as it was taken. Called on the cost that took it, so that the prices and limits
   * of that moment apply, even if a later bundle changes them.
   */
  settled(amount: number, usage: Usage): number | undefined
  /** Returns the model that responded if its price is that of every model without one. */
  unlistedModel?(usage: Usage): string | undefined
  /** How to settle where the cost itself is not at hand. */
  readonly record: SettlingRecord
}

/**
 * How to settle an amount without the cost that took it: a kind, and the numbers that it needs (`settling-record.ts`). Reservations that
 * gateways settle carry this record, because the rule may be gone by then, or unknown to the instance that settles.
 */
export interface SettlingRecord {
  readonly kind: number
  readonly numbers: readonly number[]
}

/**
 * The usage of a request, as far as it is known at its end. 'unfinished' says that the backend was asked and nothing came that costs tokens, so that it may
 * have generated all the same: rules decide whether they charge that.
 */
export type Usage = 'nothing' | 'unknown' | 'unfinished' | KnownUsage

interface KnownUsage {
  /** Undefined if the caller reports only a cost. */
  readonly tokens: TokenCounts | undefined
  /** The cost that the caller reports, in units of the currency, for money budgets. */
  readonly cost?: number | undefined
  /** The model that the backend was asked for, if it replaced the request's own. */
  readonly sentModel?: string | undefined
  /** Whether the response was a stream of events. */
  readonly isStreamed: boolean
  /**
   * Set if the completion is our estimate, because the response ended before the provider's count, or the client did not ask for that count.
   * 'low' means that it is known to be too low, so that the reservation counts if that is more.
   */
  readonly estimate?: 'fair' | 'low' | undefined
  /** Whether the completion is an estimate that is charged as if the provider had counted it: that of a whole response. */
  readonly isUncounted?: boolean | undefined
  /** Set if a call to another backend was left before, because nothing came of it in time: that one is unfinished, too. */
  readonly isRepeated?: boolean | undefined
}

/** Returns the actual amount, or the reservation if that is more and the amount may not be all: then the rule may not trust it. */
export function amountWithoutUsage(settled: number, reserved: number, usage: Usage, without: WithoutUsage): number {
  const { estimate, isRepeated } = typeof usage === 'object' ? usage : NO_ESTIMATE
  const mayBeMore = usage === 'unfinished' || estimate === 'fair' || isRepeated === true
  return estimate === 'low' || (mayBeMore && without === 'keep') ? Math.max(settled, reserved) : settled
}

const NO_ESTIMATE: Partial<KnownUsage> = {}

// A number always stands for the same kind, because reservation tokens outlive the program that issued them.

/** Settles to the tokens of prompt and completion, each counted once. */
export const SETTLED_TO_TOKENS: SettlingRecord = Object.freeze({ kind: 1, numbers: [] })
/** Settles to nothing, when the request is over. */
export const RELEASED: SettlingRecord = Object.freeze({ kind: 2, numbers: [] })
/** Settles to what the tokens cost, by four prices of a model: input, cached input, cache write and output. */
export const PRICED = 3
/** Settles to the cost that the caller reports. */
export const SETTLED_TO_COST: SettlingRecord = Object.freeze({ kind: 4, numbers: [] })
/** Settles to the weighted sum of the tokens, by the four weights of a rule. */
export const WEIGHTED = 5
/** Settles to what the request costs, by all prices of a model (`ModelPrice.record`). */
export const FULLY_PRICED = 6
