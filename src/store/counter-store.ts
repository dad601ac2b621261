import type { Limit } from '../limiter/limit.ts'
import type { ChargeResults, Charges, Counter, Taken } from './charges.ts'
import type { CounterLocator } from './counter-locator.ts'

/** Whether all rows were taken, or would be; 'unavailable': it is not known, and nothing was taken. */
export type Outcome = boolean | 'unavailable'

/** Where counters are kept. `nowMs` is monotonic; `wallMs` is Unix time. */
export interface CounterStore {
  /** Opens a rule's counter. The same identity always means the same counts. */
  open(spec: CounterSpec): Counter

  /**
   * Takes every row's cost, or none at all; no two rows have the same counter and subject. Returns whether they were taken, without a
   * promise where the store is in memory. Writes levels, waits, warnings, and when and where it was taken into `results`.
   */
  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Outcome | Promise<Outcome>

  /** What `takeAll` would return, without taking anything. `isForOperator`: no decision depends on it, and it is not counted. */
  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, isForOperator?: boolean): Outcome | Promise<Outcome>

  /**
   * Gives each row's cost back to the counter that it was taken from: never above its size, to the window that it was taken in, and
   * not at all where the counter was reset since. A negative cost is charged, whether or not there is enough: the level may
   * fall below zero. `onWarning` is called where that makes a window reach a share to warn of, maybe later: a settlement that cannot be
   * sent now is sent when it can.
   */
  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void | Promise<void>

  /** Where the counter of each row is, at the time when it was taken from: for a settlement that does not know the values. */
  locatorsOf(charges: Charges, taken: Taken): readonly CounterLocator[]

  /**
   * As `settleAll`, for rows that have locators instead of values. `taker`: the instance that took, which counts it too; undefined: it no
   * longer does. Returns false where it is not known whether it was done.
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
   * Renews holds: moves each row's cost from the slice in which it was taken, or last renewed, to the current one. Where its slice has
   * ended, it is taken again, whether or not there is enough. Rows of other kinds stay as they are. Returns when and where it was taken
   * now; `taken` where a counter was reset since: then nothing is renewed.
   */
  renewAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): Taken | Promise<Taken>

  /**
   * Makes each row's counter as if nothing had ever been taken from it; costs are ignored. What was taken, leased, counted or saved before
   * can no longer change it. Throws, or rejects, unless it is known to be done.
   */
  resetAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void>

  /** For the metrics. */
  stats(): StoreStats
}

/** A row's window has reached this percentage, and has not warned of it or of a higher one before. */
export type OnWarning = (row: number, percent: number) => void

export interface CounterSpec {
  readonly identity: readonly string[]
  readonly limit: Limit
  /** Since when this limit holds; before that, tokens were refilled by the limit before it. */
  readonly sinceMs: number
  /** Whether takes are mostly of one token and never settled, so that tokens may be pre-fetched if the algorithm allows it. */
  readonly isLeasable?: boolean
  /** Whether takes are corrected later; by default, those that are not leasable are. */
  readonly isSettled?: boolean
  /** Set where an override changes the rule's limit to this one: a raise is then added to what is left, once. */
  readonly override?: CounterOverride
}

/** The override that a counter's limit comes from. Unix times in milliseconds, by the clock of the store that shares the counters. */
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
  /** Counters evicted although they were not full, each a limit that started again, and takes that no counter had room for. */
  readonly forcedEvictions: number
}
