import type { Algorithm } from '../../limiter/algorithms/algorithm.ts'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { DAY_MS } from '../../limiter/calendar.ts'
import { type Limit, WINDOW, type WindowLimit } from '../../limiter/limit.ts'
import type { Counter } from '../charges.ts'
import type { CounterSpec } from '../counter-store.ts'
import type { HashState } from '../subject.ts'
import type { SharedTable } from './shared-table.ts'
import { RESET } from './table-layout.ts'

/** Added to a record's time, so that the record counts as written before its limit began to hold. */
const INSTANT_MS = 0.001

/** How a table finds the subjects of a counter. */
export interface SubjectLookup {
  /** Hash state after the identity, from which the hash of each subject continues. */
  readonly prefix: HashState
  /** The rule's number in the table, which its records carry. */
  readonly rule: number
}

/** A counter whose subjects are kept in a table. */
export class EmbeddedCounter implements Counter, SubjectLookup {
  readonly identity: readonly string[]
  readonly limit: Limit
  readonly algorithm: Algorithm<Limit>
  readonly sinceMs: number
  /** Monotonic time until which a record may still be written under the limit that an override has replaced; `sinceMs` by default. */
  readonly lateMs: number
  /** Whether the counter has neither slices nor warnings, like most counters. */
  readonly isPlain: boolean
  /** The limit, if it has shares to warn of. */
  readonly warning: WindowLimit | undefined
  readonly prefix: HashState
  readonly rule: number

  readonly #ruleSize: number | undefined

  /** `lateByMs` is how long takes may still be charged under the limit from before an override. */
  constructor(spec: CounterSpec, lookup: SubjectLookup, lateByMs = 0) {
    this.identity = spec.identity
    this.limit = spec.limit
    this.algorithm = algorithmOf(spec.limit)
    this.sinceMs = spec.sinceMs
    this.lateMs = spec.sinceMs + lateByMs
    this.#ruleSize = spec.override && Math.fround(spec.override.ruleSize)
    this.warning = warningLimit(spec.limit)
    this.isPlain = !this.algorithm.isSliced && this.warning === undefined
    this.prefix = lookup.prefix
    this.rule = lookup.rule
  }

  /**
   * Returns since when the limit holds for a record of `size` that was last written at `atMs`, before `lateMs`. A record that was written
   * late, under the rule's own limit, counts as written before the override.
   */
  sinceFor(atMs: number, size: number): number {
    const isLate = atMs >= this.sinceMs && size === this.#ruleSize
    return isLate ? atMs + INSTANT_MS : this.sinceMs
  }
}

function warningLimit(limit: Limit): WindowLimit | undefined {
  return limit.kind === WINDOW && limit.warnings !== undefined ? limit : undefined
}

/** Derives the tag of a counter's reset from the counter's own. Both are in the same set, so one lock covers both. */
const SALT = 0x5e7_0000
/** How long a take or settlement from before a reset may still arrive. */
const KEPT_MS = DAY_MS
/** Least distance between two moments: no two resets of a counter have the same one, even if the clock was set back. */
export const TICK_MS = 0.001

/**
 * Remembers when counters were reset, by the clock of the store that shares them. The moments are kept in the table that all threads share,
 * for a day, or until the counter's window has ended if that is later. Callers of all methods hold the lock of the set.
 */
export class Resets {
  readonly #table: SharedTable

  constructor(table: SharedTable) {
    this.#table = table
  }

  /** Returns when the counter was last reset, in wall time, or 0 if no reset is known. */
  momentOf(set: number, low: number, high: number): number {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot < 0 ? 0 : this.#table.level(slot)
  }

  /** Returns the moment of a reset that is made now: later than all resets in the table. */
  nextMoment(set: number, low: number, high: number, wallMs: number): number {
    return Math.max(wallMs, this.#table.lastResetMs + TICK_MS, this.momentOf(set, low, high) + TICK_MS)
  }

  /** Returns the moment of a take that is made now, under the locks of its sets: later than all resets before it. */
  takeMoment(wallMs: number): number {
    const lastMs = this.#table.lastResetMs
    return wallMs > lastMs ? wallMs : lastMs + TICK_MS
  }

  /** Returns whether the counter was reset after a take at that moment, by the same clock. */
  isSince(set: number, low: number, high: number, takenMs: number): boolean {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot >= 0 && takenMs <= this.#table.level(slot)
  }

  /** Notes a reset and forgets the counter's record. Returns false, and does nothing, if this reset or a later one is known already. */
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
