import { ALGORITHMS } from '../../limiter/algorithms/algorithms.ts'
import { DAY_MS } from '../../limiter/time-zone.ts'
import { RESET, worthMs } from '../record-kinds.ts'
import type { TaggedRecord } from '../table-records.ts'
import type { Moment } from './state-format.ts'

/*
 * Limits of every kind and resets are saved, each kind in sections of its own. Leases are not: they go back when the process ends, and a
 * saved one would be used twice.
 */

/** No window is longer than a year, and no reset is kept longer than its window and a day. */
const MAX_AHEAD_MS = 367 * DAY_MS
/** How far the clock of Redis may be ahead of ours. */
const MAX_SKEW_MS = DAY_MS

export function isSavedKind(kind: number): boolean {
  return clockOf(kind) !== undefined
}

/**
 * Whether a record is saved. One that ends more than a year later comes from a wrong clock, and would be kept for as long as that clock was
 * ahead.
 */
export function isKeptFrom(moment: Moment, kind: number, at: number): boolean {
  const clock = clockOf(kind)
  return clock === 'monotonic' || (clock === 'wall' && at <= moment.wallMs + MAX_AHEAD_MS)
}

/** Converts a saved record to the clocks of this process. Returns whether it is still live. */
export function bringTo(present: Moment, saved: Moment, record: TaggedRecord): boolean {
  if (!isKeptFrom(saved, record.kind, record.at) || isFromTheFuture(saved, record)) return false
  if (clockOf(record.kind) === 'monotonic') {
    // Never back in time: refill from before the save stays, and no bucket waits for a clock that was set back.
    const downMs = Math.max(0, present.wallMs - saved.wallMs)
    record.at = Math.min(record.at - saved.nowMs - downMs + present.nowMs, present.nowMs)
  }
  return worthMs(record, present.nowMs, present.wallMs) > 0
}

/** A reset far ahead of the save comes from a wrong clock: everything taken since would count as older. */
function isFromTheFuture(saved: Moment, { kind, level }: TaggedRecord): boolean {
  return kind === RESET && level > saved.wallMs + MAX_SKEW_MS
}

/** The clock that `at` is on in records of a kind that is saved. */
function clockOf(kind: number): 'monotonic' | 'wall' | undefined {
  return kind === RESET ? 'wall' : ALGORITHMS[kind]?.clock
}
