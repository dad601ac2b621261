import type { Limit } from '../limiter/limit.ts'
import type { ChargeResults, Charges, Counter, Taken } from './charges.ts'
import type { CounterLocator } from './counter-locator.ts'

/** Whether all rows were taken, or would be; 'unavailable' means that the store could not tell and took nothing. */
export type Outcome = boolean | 'unavailable'

/**
 * What a take or a check is for. Only what a decision asks is counted as a decision in metrics.
 *
 * By `growth`, a reservation that was taken before grows: its windows grant that or refuse it, and its buckets are charged along, whether or not
 * enough is left in them, because no stream should be cut by a refill rate. On an `operator`'s question no decision depends.
 */
export type Purpose = 'decision' | 'growth' | 'operator'

/** Keeps counters. `nowMs` is monotonic time; `wallMs` is Unix time. */
export interface CounterStore {
  /** Opens a rule's counter. Counters with the same identity share their counts. */
  open(spec: CounterSpec): Counter

  /**
   * Takes every row's cost, or none at all. No two rows may have the same counter and subject. A store in memory returns its outcome
   * without a promise. Levels, waits, warnings, and when and where it was taken are written to `results`.
   */
  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose?: Purpose): Outcome | Promise<Outcome>

  /** Returns what `takeAll` would for a decision, without taking anything. */
  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose?: Purpose): Outcome | Promise<Outcome>

  /**
   * Gives each row's cost back to the counter and window that it was taken from: never above the counter's size, and not at all if the
   * counter was reset since. A negative cost is charged even if not enough is left, so the level may fall below zero. `onWarning` is called
   * if that makes a window reach a share to warn of. This may happen later, because a settlement that cannot be sent now is kept until it
   * can.
   */
  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void | Promise<void>

  /** Returns the counter locator of each row, for the window that was charged, so that it can be settled without its values. */
  locatorsOf(charges: Charges, taken: Taken): readonly CounterLocator[]

  /**
   * As `settleAll`, for rows that have locators instead of values. `taker` is the instance that took, which counts the charge too; it is
   * undefined if that instance no longer does. Returns false if the outcome is unknown.
   */
  settleLocated(
    charges: Charges,
    taker: string | undefined,
    taken: Taken,
    nowMs: number,
    wallMs: number,
    onWarning?: OnWarning,
  ): boolean | Promise<boolean>

  /** As `renewAll`, for rows that have locators instead of values. */
  renewLocated(charges: Charges, taker: string | undefined, taken: Taken, nowMs: number, wallMs: number): Taken | Promise<Taken>

  /**
   * Renews holds: moves each row's cost from the slice in which it was taken, or last renewed, to the current one. A hold whose slice has
   * ended is taken again, even if not enough is left. Rows of other kinds are ignored. Returns when and where the holds were taken now, or
   * `taken` itself if a counter was reset since and nothing was renewed.
   */
  renewAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): Taken | Promise<Taken>

  /**
   * Makes each row's counter as if nothing had ever been taken from it; costs are ignored. Nothing that was taken, leased, counted or saved
   * before can change it any more. Throws, or rejects, unless the reset is known to be done.
   */
  resetAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void>

  /** Returns the numbers that metrics report. */
  stats(): StoreStats
}

/** Called when a row's window has reached this percentage and has not warned of it, or of a higher one, before. */
export type OnWarning = (row: number, percent: number) => void

export interface CounterSpec {
  readonly identity: readonly string[]
  readonly limit: Limit
  /** Monotonic time since which this limit holds; until then, tokens were refilled under the limit before it. */
  readonly sinceMs: number
  /** Whether takes are mostly of one token and never settled: then tokens may be pre-fetched, if the algorithm allows it. */
  readonly isLeasable?: boolean
  /** Whether takes are corrected later; by default, all counters that are not leasable are settled. */
  readonly isSettled?: boolean
  /** Set if this limit comes from an override: a raise is then added once to what is left. */
  readonly override?: CounterOverride
}

/**
 * The override that a counter's limit comes from. Times are Unix time in milliseconds, by the clock of the store that shares the counters.
 */
export interface CounterOverride {
  /** When it comes into force: the same number in all instances of a fleet. */
  readonly momentMs: number
  readonly untilMs: number
  /** The size of the rule's own limit. */
  readonly ruleSize: number
}

export interface StoreStats {
  readonly slots: number
  readonly occupiedSlots: number
  /** Counters that were evicted before they were full again, so that their limits restarted, plus takes for which no counter had room. */
  readonly forcedEvictions: number
}
