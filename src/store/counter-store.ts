import type { Limit } from '../limiter/limit.ts'
import type { Charges, Counter } from './charges.ts'

/** Whether all rows were taken, or would be; 'unavailable': nobody can tell, and nothing was taken. */
export type Outcome = boolean | 'unavailable'

/** Where counters live. */
export interface CounterStore {
  /** Makes a rule's counter known. The same identity always means the same counts. */
  open(spec: CounterSpec): Counter

  /**
   * Takes every row's cost, or none at all; no two rows are of the same counter and subject. Answers whether they were
   * taken, at once where the store is in memory; the levels, waits and origin are written into `charges`. `wallMs` is read for
   * daily limits alone.
   */
  takeAll(charges: Charges, nowMs: number, wallMs: number): Outcome | Promise<Outcome>

  /** The answers that `takeAll` would give, and nothing is taken. */
  checkAll(charges: Charges, nowMs: number, wallMs: number): Outcome | Promise<Outcome>

  /**
   * Gives each row's cost back to the counter that it was taken from: never above its size, and for a daily limit to
   * the day of the charges' `takenWallMs`. A negative cost is charged, whether or not there is enough: the level may fall below zero.
   */
  settleAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void>

  /** What there is to say of the store in metrics. */
  stats(): StoreStats
}

export interface CounterSpec {
  readonly identity: readonly string[]
  readonly limit: Limit
  /** Since when this limit holds; until then, tokens came back as the limit before it said. */
  readonly sinceMs: number
  /** Whether every take is of one token and for good, so that tokens can be had ahead of need. */
  readonly isPlain?: boolean
}

export interface StoreStats {
  readonly slots: number
  readonly occupiedSlots: number
  /** Counters thrown out to make room though they were not full: each is a limit that started anew. */
  readonly forcedEvictions: number
}
