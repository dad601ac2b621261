import type { LlmRequest, WithoutUsage } from '../llm/llm-request.ts'
import type { TokenCounts } from '../llm/usage.ts'

/** The facts of a request that its cost may depend on, before it is decided. */
export interface RequestFacts {
  /** Normalised. */
  readonly path: string
  /** What the body says; undefined where none was read. */
  readonly body: LlmRequest | undefined
  /** The number given with the question; 1 where there is none. */
  readonly given: number
  /** Whether a number was given. */
  readonly isGiven: boolean
  /** Whether the caller settles at the end of the request, even if its body was not read. */
  readonly isSettledLater: boolean
  /** A header field by its lower-case name; null where it is repeated. */
  headerText(name: string): string | undefined | null
}

/** What a rule takes from each of its counters, in the unit that its limits count: requests, tokens, money, requests in flight. */
export interface Cost {
  /** Whether it depends on the body: until that is read, it is unknown. */
  readonly needsBody: boolean
  /** Whether takes are mostly of one token and never settled, so that a store may pre-fetch tokens. */
  readonly isLeasable: boolean
  /** The header field that it reads, in lower case, if it reads one. */
  readonly header?: string | undefined
  /** What the request takes; AMBIGUOUS where a field that says it is repeated. Called for each decision, so it must not allocate. */
  of(facts: RequestFacts): number
  /** How the amount is corrected when the request ends. Undefined: never. */
  readonly settling: Settling | undefined
}

/** Two readers could understand the cost differently: the request is refused. */
export const AMBIGUOUS = Number.NaN

/** Corrects amounts that were taken before the actual usage was known. */
export interface Settling extends Settler {
  /** 'usage': as soon as that is known. 'end': when the request is over, whatever it used; until then it is a hold, and renewed. */
  readonly at: 'usage' | 'end'
  /** Whether the amount that this request takes will be settled. */
  applies(facts: RequestFacts): boolean
  /** What settles this request, where that depends on the request: the prices of its model. */
  forRequest?(facts: RequestFacts): Settler
}

export interface Settler {
  /**
   * The actual amount; undefined: the amount stays as it was taken. Called on the cost that took it, so that the prices and limits of
   * that moment apply, even if a later bundle changes them.
   */
  settled(amount: number, usage: Usage): number | undefined
  /** The same where the cost is not at hand. */
  readonly record: SettlingRecord
}

/**
 * How an amount is settled, without the cost that took it: a kind and the numbers that it needs (`settling-record.ts`). Reservations that
 * gateways settle carry it, because the rule may be gone by then, or unknown to the instance that is asked.
 */
export interface SettlingRecord {
  readonly kind: number
  readonly numbers: readonly number[]
}

/** What a request has used, as far as that is known at its end. */
export type Usage = 'nothing' | 'unknown' | KnownUsage

interface KnownUsage {
  /** Undefined where the caller reports only what it cost. */
  readonly tokens: TokenCounts | undefined
  /** What the caller says that it cost, in units of the currency: for budgets of money. */
  readonly cost?: number | undefined
  /** The response was a stream of events. */
  readonly isStreamed: boolean
  /**
   * The completion is our estimate: the provider would have counted it, and the response ended before, or the client did not ask for it. 'low': it
   * is known to be too low, so that the reservation counts where that is more.
   */
  readonly estimate?: 'fair' | 'low' | undefined
}

/** The actual amount, corrected where it is an estimate that is not trusted. */
export function amountWithoutUsage(settled: number, reserved: number, usage: Usage, without: WithoutUsage): number {
  const estimate = typeof usage === 'object' ? usage.estimate : undefined
  return estimate === 'low' || (estimate === 'fair' && without === 'keep') ? Math.max(settled, reserved) : settled
}

// A number always stands for the same kind: tokens outlive the program that issued them.

/** To the tokens of prompt and completion. */
export const SETTLED_TO_TOKENS: SettlingRecord = Object.freeze({ kind: 1, numbers: [] })
/** To nothing, when the request is over. */
export const RELEASED: SettlingRecord = Object.freeze({ kind: 2, numbers: [] })
/** To what the tokens cost, by the four prices of a model. */
export const PRICED = 3
/** To what the caller says that it cost. */
export const SETTLED_TO_COST: SettlingRecord = Object.freeze({ kind: 4, numbers: [] })
