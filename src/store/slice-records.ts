import { SLICES, sliceIndex } from '../limiter/algorithms/in-flight.ts'
import type { CounterRecord } from '../limiter/record.ts'
import type { EmbeddedCounter } from './embedded-counter.ts'
import type { SharedTable } from './shared-table.ts'
import type { TableRows } from './table-rows.ts'

/*
 * A counter with slices has a record for each of the eight that count. They are in the counter's set, so one lock covers all. The tag of a
 * record says which of the eight it is: a later slice replaces the one that ended when it began. All under the locks of the rows.
 */

/** Makes the tags of the slices from the counter's. */
const SALT = 0x0511_ce00

/** Reads the record of the current slice, and what the others hold. */
export function readSlices(rows: TableRows, row: number, { limit, algorithm }: EmbeddedCounter, nowMs: number, wallMs: number): void {
  const { table } = rows
  const record = rows.records[row]!
  algorithm.begin(limit, record, nowMs, wallMs)
  const { at, rate: sliceMs } = record
  // Whatever is in the slot of this slice counts no more, unless it is this slice.
  rows.slots[row] = findSlice(rows, row, record)
  let elsewhere = 0
  for (let age = SLICES - 1; age >= 0; age--) {
    record.at = at - age * sliceMs
    const slot = findSlice(rows, row, record)
    const level = slot >= 0 && table.at(slot) === record.at ? table.level(slot) : 0
    if (age > 0) elsewhere += level
    else record.level = level
  }
  rows.elsewhere[row] = elsewhere
}

/** Reads the record of an earlier slice. Its slot is -1 if its holds no longer count. */
export function readSlice(rows: TableRows, row: number, { limit, algorithm }: EmbeddedCounter, nowMs: number, wallMs: number): void {
  const { table } = rows
  const record = rows.records[row]!
  algorithm.begin(limit, record, nowMs, wallMs)
  const slot = findSlice(rows, row, record)
  rows.slots[row] = slot >= 0 && table.at(slot) === record.at ? slot : -1
  if (rows.slots[row]! >= 0) record.level = table.level(slot)
}

/** The tag of a slice's record, by the counter's. */
export function sliceLow(low: number, record: CounterRecord): number {
  return low ^ (SALT + sliceIndex(record))
}

export function forgetSlices(table: SharedTable, set: number, low: number, high: number): void {
  for (let index = 0; index < SLICES; index++) {
    const slot = table.find(set, low ^ (SALT + index), high)
    if (slot >= 0) table.forget(slot)
  }
}

function findSlice({ table, sets, lows, highs, rules }: TableRows, row: number, record: CounterRecord): number {
  const slot = table.find(sets[row]!, sliceLow(lows[row]!, record), highs[row]!)
  if (slot >= 0) table.adopt(slot, rules[row]!)
  return slot
}
