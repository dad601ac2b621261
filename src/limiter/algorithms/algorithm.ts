import type { CounterRecord } from '../record.ts'

/**
 * How one kind of limit counts: arithmetic on a record, no clock and no place to keep it. `nowMs` only ever grows and has no zero that
 * means anything; `wallMs` is Unix time. Each kind reads the clock that it counts by.
 */
export interface Algorithm<L> {
  /** The clock that a record's `at` is on: the growing one, which ends with the process, or wall time; then `at` is when the record ends. */
  readonly clock: 'growing' | 'wall'
  /** Whether tokens may be obtained ahead of need. */
  readonly isLeasable: boolean

  /** The most that the limit can hand out at one moment. */
  size(limit: L): number
  isSame(a: L, b: L): boolean

  /** Whether each window is a counter of its own; then its number is a part of the counter's subject. */
  readonly hasWindows: boolean
  /** Which window counts at this moment. */
  windowAt(limit: L, wallMs: number): number

  /** Makes it the record of a counter from which nothing was taken. */
  begin(limit: L, record: CounterRecord, nowMs: number, wallMs: number): void

  /** Brings a record to this moment and under this limit, which holds since `sinceMs`; before that, the limit in the record did. */
  look(limit: L, record: CounterRecord, sinceMs: number, nowMs: number): void

  /** What is left, by a record that was looked at. Below zero there is a debt. */
  left(limit: L, record: CounterRecord): number
  /** Takes from a record that was looked at, whether or not there is enough. */
  take(record: CounterRecord, cost: number): void
  /** Gives back to a record that was looked at, never above the limit's size; below zero, `cost` is charged besides. */
  settle(limit: L, record: CounterRecord, cost: number): void
  /** How much comes back by itself in so many ms. */
  refillIn(limit: L, ms: number): number

  /** How long until `cost` can be taken, `left` being what is left: 0 = now, NEVER = it is more than the limit can ever hold. */
  waitMs(limit: L, left: number, cost: number, wallMs: number): number
  /** How long until the limit is whole again. */
  resetMs(limit: L, left: number, wallMs: number): number

  /** How much would be lost if the record were forgotten, judged without its limit: 0 = nothing, it says what a new one would; up to 1. */
  spentShare(record: CounterRecord, nowMs: number, wallMs: number): number
}
