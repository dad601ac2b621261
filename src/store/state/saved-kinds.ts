import { ALGORITHMS } from '../../limiter/algorithms/algorithms.ts'
import { RESET, spentShare } from '../record-kinds.ts'
import type { TaggedRecord } from '../table-records.ts'
import type { Moment } from './state-format.ts'

/*
 * Limits of every kind and resets are saved, each kind in sections of its own. Leases end with the process: tokens that were leased and saved would be
 * used twice.
 */

/** No window is longer than a year, and no reset is kept longer than its window and a day. */
const MAX_AHEAD_MS = 367 * 86_400_000
/** As far as the clock of Redis may be ahead of ours. */
const MAX_SKEW_MS = 86_400_000

export function isSavedKind(kind: number): boolean {
  return clockOf(kind) !== undefined
}

/**
 * Whether a record is worth keeping beyond this moment. One that ends more than a year later comes from a clock that was wrong, and would
 * be kept for as long as that clock was ahead.
 */
export function isKeptFrom(moment: Moment, kind: number, at: number): boolean {
  const clock = clockOf(kind)
  return clock === 'growing' || (clock === 'wall' && at <= moment.wallMs + MAX_AHEAD_MS)
}

/** Brings a record that was saved at one moment to another one; returns whether it still means anything. */
export function bringTo(present: Moment, saved: Moment, record: TaggedRecord): boolean {
  if (!isKeptFrom(saved, record.kind, record.at) || isFromTheFuture(saved, record)) return false
  if (clockOf(record.kind) === 'growing') {
    // Time does not run backwards: what came back before the save stays, and nothing waits for a clock to come round again.
    const awayMs = Math.max(0, present.wallMs - saved.wallMs)
    record.at = Math.min(record.at - saved.nowMs - awayMs + present.nowMs, present.nowMs)
  }
  return spentShare(record, present.nowMs, present.wallMs) > 0
}

/** A reset that was far ahead when it was saved comes from a clock that was wrong, and everything taken since would count as older. */
function isFromTheFuture(saved: Moment, { kind, level }: TaggedRecord): boolean {
  return kind === RESET && level > saved.wallMs + MAX_SKEW_MS
}

/** The clock that `at` is on in records of a kind that is saved. */
function clockOf(kind: number): 'growing' | 'wall' | undefined {
  return kind === RESET ? 'wall' : ALGORITHMS[kind]?.clock
}
