import type { Limit } from '../limiter/limit.ts'
import type { Charges, Counter } from './charges.ts'

/** Where counters live. */
export interface CounterStore {
  /** Makes a rule's counter known. The same identity always means the same counts. */
  open(spec: CounterSpec): Counter

  /**
   * Takes every row's cost, or none at all; no two rows are of the same counter and subject. Answers whether they were
   * taken, at once where the store is in memory; the levels and waits are written into `charges`. `wallMs` is read for
   * daily limits alone.
   */
  takeAll(charges: Charges, nowMs: number, wallMs: number): boolean | Promise<boolean>

  /** The answers that `takeAll` would give, and nothing is taken. */
  checkAll(charges: Charges, nowMs: number, wallMs: number): boolean | Promise<boolean>

  /**
   * Gives each row's cost back to the counter that it was taken from: never above its size, and for a daily limit to
   * the day of `takenWallMs`. A negative cost is charged, whether or not there is enough: the level may fall below zero.
   */
  settleAll(charges: Charges, nowMs: number, wallMs: number, takenWallMs: number): void | Promise<void>

  /** What there is to say of the store in metrics. */
  stats(): StoreStats
}

export interface CounterSpec {
  readonly identity: readonly string[]
  readonly limit: Limit
  /** Since when this limit holds; until then, tokens came back as the limit before it said. */
  readonly sinceMs: number
}

export interface StoreStats {
  readonly slots: number
  readonly occupiedSlots: number
  /** Counters thrown out to make room though they were not full: each is a limit that started anew. */
  readonly forcedEvictions: number
}
