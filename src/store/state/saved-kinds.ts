import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { RESET, spentShare } from '../record-kinds.ts'
import type { TaggedRecord } from '../table-records.ts'
import type { Moment } from './state-format.ts'

/** The clock that a record's `at` is on: the process's own, which ends with it, or Unix time. */
export type RecordClock = 'monotonic' | 'wall'

/**
 * The kinds of records that are saved, each in sections of its own. All others end with the process: tokens that were leased and
 * saved would be used twice.
 */
const SAVED_KINDS: readonly (readonly [kind: number, clock: RecordClock])[] = [
  [BUCKET, 'monotonic'],
  [WINDOW, 'wall'],
  [RESET, 'wall'],
]

const CLOCKS: readonly (RecordClock | undefined)[] = byKind()

/** No window is longer than a year, and no reset is kept longer than its window and a day. */
const MAX_AHEAD_MS = 367 * 86_400_000

export function isSavedKind(kind: number): boolean {
  return CLOCKS[kind] !== undefined
}

/**
 * Whether a record is worth keeping beyond this moment. One that ends more than a year later comes from a clock that was wrong, and would
 * be kept for as long as that clock was ahead.
 */
export function isKeptFrom(moment: Moment, kind: number, at: number): boolean {
  const clock = CLOCKS[kind]
  return clock === 'monotonic' || (clock === 'wall' && at <= moment.wallMs + MAX_AHEAD_MS)
}

/** Brings a record that was saved at one moment to another one; returns whether it still means anything. */
export function bringTo(present: Moment, saved: Moment, record: TaggedRecord): boolean {
  if (!isKeptFrom(saved, record.kind, record.at)) return false
  if (CLOCKS[record.kind] === 'monotonic') {
    // Time does not run backwards: what came back before the save stays, and nothing waits for a clock to come round again.
    const awayMs = Math.max(0, present.wallMs - saved.wallMs)
    record.at = Math.min(record.at - saved.nowMs - awayMs + present.nowMs, present.nowMs)
  }
  return spentShare(record, present.nowMs, present.wallMs) > 0
}

function byKind(): readonly (RecordClock | undefined)[] {
  const clocks = new Array<RecordClock | undefined>(256).fill(undefined)
  for (const [kind, clock] of SAVED_KINDS) clocks[kind] = clock
  return Object.freeze(clocks)
}
