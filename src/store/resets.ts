import { RESET } from './record-kinds.ts'
import type { SharedTable } from './shared-table.ts'

/** Tells a counter's tag from that of its reset, which is in the same set: one lock covers both. */
const SALT = 0x5e7_0000
/** Something from before a reset may turn up for at least this long. */
const KEPT_MS = 86_400_000
/** No two resets of a counter have the same moment, whatever the clock does. */
export const TICK_MS = 0.001

/**
 * When counters were reset, by the clock of the store that they are shared in, in the table that all threads share. A counter's reset is
 * kept for a day, or until its window has ended if that is later. All of this under the lock of the set.
 */
export class Resets {
  readonly #table: SharedTable

  constructor(table: SharedTable) {
    this.#table = table
  }

  /** When the counter was reset last, in wall time; 0: it is not known that it ever was. */
  momentOf(set: number, low: number, high: number): number {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot < 0 ? 0 : this.#table.level(slot)
  }

  /** For a reset at the present time. */
  nextMoment(set: number, low: number, high: number, wallMs: number): number {
    return Math.max(wallMs, this.#table.lastResetMs + TICK_MS, this.momentOf(set, low, high) + TICK_MS)
  }

  /** For a take at the present time, under the locks of its sets: later than all resets there were. */
  takeMoment(wallMs: number): number {
    const lastMs = this.#table.lastResetMs
    return wallMs > lastMs ? wallMs : lastMs + TICK_MS
  }

  /** Whether what was taken at that moment, by the same clock, is from before the counter's last reset. */
  isSince(set: number, low: number, high: number, takenMs: number): boolean {
    const slot = this.#table.find(set, low ^ SALT, high)
    return slot >= 0 && takenMs <= this.#table.level(slot)
  }

  /**
   * Notes a reset and forgets the counter as it was before. Returns false where a later one is known, or this one, and nothing
   * is to be done.
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
