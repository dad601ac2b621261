import type { Limit } from '../limiter/limit.ts'
import type { ChargeResults } from './charge-results.ts'
import type { Charges, Counter } from './charges.ts'
import type { Taken } from './taken.ts'

/** Whether all rows were taken, or would be; 'unavailable': nobody can tell, and nothing was taken. */
export type Outcome = boolean | 'unavailable'

/** Where counters live. `nowMs` only ever grows; `wallMs` is Unix time. */
export interface CounterStore {
  /** Makes a rule's counter known. The same identity always means the same counts. */
  open(spec: CounterSpec): Counter

  /**
   * Takes every row's cost, or none at all; no two rows are of the same counter and subject. Returns whether they were
   * taken, at once where the store is in memory. Levels, waits, and when and from whom it was taken, are written into `results`.
   */
  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Outcome | Promise<Outcome>

  /** What `takeAll` would return, and nothing is taken. */
  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Outcome | Promise<Outcome>

  /**
   * Gives each row's cost back to the counter that it was taken from: never above its size, to the window that it was taken in, and
   * not at all where the counter was reset since. A negative cost is charged, whether or not there is enough: the level may
   * fall below zero.
   */
  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): void | Promise<void>

  /**
   * Makes each row's counter as if nothing had ever been taken from it; costs mean nothing. What was taken, leased, counted or saved before
   * can no longer change it. Throws, or rejects, where that is not known to be done.
   */
  resetAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void>

  /** What there is to say of the store in metrics. */
  stats(): StoreStats
}

export interface CounterSpec {
  readonly identity: readonly string[]
  readonly limit: Limit
  /** Since when this limit holds; until then, tokens came back as the limit before it said. */
  readonly sinceMs: number
  /** Whether takes are mostly of one token and for good, so that tokens may be obtained ahead of need where the algorithm allows it. */
  readonly isLeasable?: boolean
}

export interface StoreStats {
  readonly slots: number
  readonly occupiedSlots: number
  /** Counters thrown out to make room though they were not full: each is a limit that started anew. */
  readonly forcedEvictions: number
}
