import type { Algorithm } from '../../limiter/algorithms/algorithm.ts'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { DAY_MS } from '../../limiter/calendar.ts'
import { type Limit, WINDOW, type WindowLimit } from '../../limiter/limit.ts'
import type { Counter } from '../charges.ts'
import type { CounterSpec } from '../counter-store.ts'
import type { HashState } from '../subject.ts'
import type { SharedTable } from './shared-table.ts'
import { RESET } from './table-layout.ts'

/** So that a record that was just written is from before. */
const INSTANT_MS = 0.001

/** Where a table keeps the subjects of a counter. */
export interface CounterPlace {
  /** The hash of the identity, with which the hash of each subject begins. */
  readonly prefix: HashState
  /** The number by which records are known as those of this rule. */
  readonly rule: number
}

/** A counter whose subjects are kept in a table. */
export class EmbeddedCounter implements Counter, CounterPlace {
  readonly identity: readonly string[]
  readonly limit: Limit
  readonly algorithm: Algorithm<Limit>
  readonly sinceMs: number
  /** Until then, a record may be written under the limit from before an override, although that is in force; by default `sinceMs`. */
  readonly lateMs: number
  /** Whether it has neither slices nor warnings, as most. */
  readonly isPlain: boolean
  /** The limit, if it is one that warns. */
  readonly warning: WindowLimit | undefined
  readonly prefix: HashState
  readonly rule: number

  readonly #ruleSize: number | undefined

  /** `lateByMs`: how long takes may still be charged under the limit from before an override. */
  constructor(spec: CounterSpec, place: CounterPlace, lateByMs = 0) {
    this.identity = spec.identity
    this.limit = spec.limit
    this.algorithm = algorithmOf(spec.limit)
    this.sinceMs = spec.sinceMs
    this.lateMs = spec.sinceMs + lateByMs
    this.#ruleSize = spec.override && Math.fround(spec.override.ruleSize)
    this.warning = warningLimit(spec.limit)
    this.isPlain = !this.algorithm.isSliced && this.warning === undefined
    this.prefix = place.prefix
    this.rule = place.rule
  }

  /** Since when its limit holds for a record of `size` that was last written at `atMs`, before `lateMs`. */
  sinceFor(atMs: number, size: number): number {
    const isLate = atMs >= this.sinceMs && size === this.#ruleSize
    return isLate ? atMs + INSTANT_MS : this.sinceMs
  }
}

function warningLimit(limit: Limit): WindowLimit | undefined {
  return limit.kind === WINDOW && limit.warnings !== undefined ? limit : undefined
}

/** Makes the tag of a counter's reset from the counter's. Both are in the same set: one lock covers both. */
const SALT = 0x5e7_0000
/** How long something from before a reset may still arrive. */
const KEPT_MS = DAY_MS
/** No two resets of a counter have the same moment, even if the clock was set back. */
export const TICK_MS = 0.001

/**
 * When counters were reset, by the clock of the store that shares them. Kept in the table that all threads share, for a day, or until the
 * counter's window has ended if that is later. All methods are called under the lock of the set.
 */
export class Resets {
  readonly #table: SharedTable

  constructor(table: SharedTable) {
    this.#table = table
  }

  /** When the counter was last reset, in wall time; 0: no reset is known. */
  momentOf(set: number, low: number, high: number): number {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot < 0 ? 0 : this.#table.level(slot)
  }

  /** For a reset now. */
  nextMoment(set: number, low: number, high: number, wallMs: number): number {
    return Math.max(wallMs, this.#table.lastResetMs + TICK_MS, this.momentOf(set, low, high) + TICK_MS)
  }

  /** For a take now, under the locks of its sets: later than all resets before it. */
  takeMoment(wallMs: number): number {
    const lastMs = this.#table.lastResetMs
    return wallMs > lastMs ? wallMs : lastMs + TICK_MS
  }

  /** Whether a take at that moment, by the same clock, was before the counter's last reset. */
  isSince(set: number, low: number, high: number, takenMs: number): boolean {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot >= 0 && takenMs <= this.#table.level(slot)
  }

  /**
   * Notes a reset and forgets the counter's record. Returns false, and does nothing, where this reset or a later one is known already.
   */
  note(set: number, low: number, high: number, momentMs: number, windowEndMs: number, nowMs: number, wallMs: number): boolean {
    const table = this.#table
    if (this.momentOf(set, low, high) >= momentMs) return false
    table.lastResetMs = Math.max(table.lastResetMs, momentMs)
    const counter = table.find(set, low, high)
    if (counter >= 0) table.forget(counter)
    const known = table.find(set, low ^ SALT, high)
    const slot = known >= 0 ? known : table.claim(set, low ^ SALT, high, RESET, nowMs, wallMs, 0)
    if (slot >= 0) table.write(slot, momentMs, Math.max(wallMs + KEPT_MS, windowEndMs), 1, 0)
    return true
  }
}
