import type { CounterRecord } from '../limit.ts'

/**
 * How one kind of limit counts: arithmetic on a record, without a clock or storage. `nowMs` is monotonic, with an arbitrary zero; `wallMs`
 * is Unix time. Each kind uses the clock that it counts by.
 */
export interface Algorithm<L> {
  /** The clock of a record's `at`: the monotonic one, which is valid only within the process, or wall time, where `at` is when the record ends. */
  readonly clock: 'monotonic' | 'wall'
  /** Whether tokens may be pre-fetched. */
  readonly isLeasable: boolean

  /** The most that the limit can grant at one moment. */
  size(limit: L): number
  isSame(a: L, b: L): boolean

  /** Whether each window is a counter of its own; then its number is part of the counter's subject. */
  readonly hasWindows: boolean
  /** Returns the number of the current window. */
  windowAt(limit: L, wallMs: number): number

  /** Whether a counter has a record for each slice of time (`in-flight.ts`), so that what is left depends on all of them. */
  readonly isSliced: boolean

  /** Initialises the record of a counter from which nothing was taken. */
  begin(limit: L, record: CounterRecord, nowMs: number, wallMs: number): void

  /** Brings a record up to date under this limit, which has applied since `sinceMs`; before that, the limit in the record applied. */
  refresh(limit: L, record: CounterRecord, sinceMs: number, nowMs: number): void

  /** Returns what is left, by a record that is up to date. A number below zero is a debt. */
  left(limit: L, record: CounterRecord): number
  /** Takes from a record that is up to date, whether or not there is enough. */
  take(record: CounterRecord, cost: number): void
  /** Gives back to a record that is up to date, never above its size; a negative `cost` is charged. */
  settle(record: CounterRecord, cost: number): void
  /** Returns how many tokens are refilled in this time. */
  refillIn(limit: L, ms: number): number

  /** Returns how long until `cost` can be taken, if `left` is left: 0 = now, NEVER = it exceeds the size of a limit that cannot be overdrawn. */
  waitMs(limit: L, left: number, cost: number, wallMs: number): number
  /** Returns how long until the limit is full again. */
  resetMs(limit: L, left: number, wallMs: number): number

  /**
   * Returns how long the record still matters, judged without its limit: 0 = it equals a new one. If two records end at the same time, the
   * one with less spent is worth a little less.
   */
  worthMs(record: CounterRecord, nowMs: number, wallMs: number): number
}
