import type { CounterRecord } from '../../limiter/limit.ts'
import type { SharedTable } from './shared-table.ts'
import { RESET, WAYS, worthMs } from './table-layout.ts'

/** A record with its tag. */
export interface TaggedRecord extends CounterRecord {
  low: number
  high: number
}

/**
 * A copy of a set's records, in columns, so that copying allocates nothing. The object is reused across sets; entries beyond `length` are
 * left over from earlier ones.
 */
export class RecordBatch {
  length = 0
  readonly kinds = new Uint8Array(WAYS)
  readonly lows = new Int32Array(WAYS)
  readonly highs = new Int32Array(WAYS)
  readonly levels = new Float64Array(WAYS)
  readonly ats = new Float64Array(WAYS)
  readonly sizes = new Float32Array(WAYS)
  readonly rates = new Float32Array(WAYS)
}

/**
 * Copies the set's live records. Returns false if the set is locked: the thread that saves is also the one that frees the locks of dead
 * threads, so it must not wait for them.
 */
export function copyLive(table: SharedTable, set: number, nowMs: number, wallMs: number, into: RecordBatch): boolean {
  into.length = 0
  if (table.isEmpty(set)) return true
  if (!table.tryLock(set)) return false
  let row = 0
  for (let way = 0; way < WAYS; way++) {
    const slot = set * WAYS + way
    if (!table.isOccupied(slot) || table.worthMs(slot, nowMs, wallMs) === 0) continue
    into.kinds[row] = table.kind(slot)
    into.lows[row] = table.low(slot)
    into.highs[row] = table.high(slot)
    into.levels[row] = table.level(slot)
    into.ats[row] = table.at(slot)
    into.sizes[row] = table.size(slot)
    into.rates[row] = table.rate(slot)
    row++
  }
  table.unlock(set)
  into.length = row
  return true
}

/**
 * Puts a record back if it is live. In a set that is full of live records, the one that expires soonest is evicted, which may be this one.
 * If the key is in the table already, it gets the new record. The record's rule is unknown until that rule next asks for it.
 */
export function restore(table: SharedTable, record: TaggedRecord, nowMs: number, wallMs: number): void {
  const worth = worthMs(record, nowMs, wallMs)
  if (worth === 0) return
  const { kind, low, high, level, at, size, rate } = record
  const set = table.setOf(high)
  if (kind === RESET) table.lastResetMs = Math.max(table.lastResetMs, level)
  table.lock(set)
  let known = table.find(set, low, high)
  if (known >= 0 && table.kind(known) !== kind) {
    table.forget(known)
    known = -1
  }
  const slot = known >= 0 ? known : table.claim(set, low, high, kind, nowMs, wallMs, 0, worth)
  if (slot >= 0) table.write(slot, level, at, size, rate)
  table.unlock(set)
}
