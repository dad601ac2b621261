import { newWarning } from '../limiter/algorithms/window.ts'
import { IN_FLIGHT, type WindowLimit } from '../limiter/limit.ts'
import type { ChargeResults } from './charge-results.ts'
import type { Charges } from './charges.ts'
import type { EmbeddedCounter } from './embedded-counter.ts'
import { worthMs } from './record-kinds.ts'
import { readSlice, readSlices, sliceLow } from './slice-records.ts'
import type { TableRows } from './table-rows.ts'

// The records of located rows: read, checked, taken from and written, all under the locks of the rows.

/** Reads the row's record and brings it up to date. */
export function readRow(rows: TableRows, charges: Charges, row: number, nowMs: number, wallMs: number): void {
  const counter = charges.counters[row] as EmbeddedCounter
  const { limit, algorithm, sinceMs } = counter
  if (!counter.isPlain && algorithm.isSliced) return readSlices(rows, row, counter, nowMs, wallMs)
  const { table } = rows
  const record = rows.records[row]!
  const slot = table.find(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
  rows.slots[row] = slot
  if (slot < 0) {
    algorithm.begin(limit, record, nowMs, wallMs)
  } else {
    // Also where nothing will be taken: a caller whose limit is used up is rejected, and its record is never written.
    table.adopt(slot, rows.rules[row]!)
    table.read(slot, record)
    algorithm.refresh(limit, record, record.at < counter.lateMs ? counter.sinceFor(record.at, record.size) : sinceMs, nowMs)
  }
}

/** Reads the record that was taken from at `takenWallMs`, to correct it. */
export function readTaken(rows: TableRows, charges: Charges, row: number, nowMs: number, takenWallMs: number): void {
  const counter = charges.counters[row] as EmbeddedCounter
  if (counter.algorithm.isSliced) readSlice(rows, row, counter, nowMs, takenWallMs)
  else readRow(rows, charges, row, nowMs, takenWallMs)
}

/** Reads all rows, with level and wait of each. Returns whether all would pass. */
export function checkRows(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
  let fits = true
  for (let row = 0; row < charges.length; row++) fits = checkRow(rows, charges, results, row, nowMs, wallMs) && fits
  return fits
}

/** Reads the row, with its level and wait. Returns whether it would pass. */
export function checkRow(rows: TableRows, charges: Charges, results: ChargeResults, row: number, nowMs: number, wallMs: number): boolean {
  readRow(rows, charges, row, nowMs, wallMs)
  const { limit, algorithm, isPlain } = charges.counters[row] as EmbeddedCounter
  let left = algorithm.left(limit, rows.records[row]!)
  if (!isPlain && algorithm.isSliced) left -= rows.elsewhere[row]!
  const waitMs = algorithm.waitMs(limit, left, charges.costs[row]!, wallMs)
  results.levels[row] = left
  results.waitsMs[row] = waitMs
  return waitMs === 0
}

/** As `checkRow`, for a bucket that has a record under another limit than the row's: it keeps that limit. */
export function checkAsItIs(rows: TableRows, charges: Charges, results: ChargeResults, row: number): boolean {
  const { table } = rows
  const record = rows.records[row]!
  const slot = table.find(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
  rows.slots[row] = slot
  table.read(slot, record)
  const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
  results.levels[row] = record.level
  results.waitsMs[row] = algorithm.waitMs(limit, record.level, charges.costs[row]!, 0)
  return results.waitsMs[row] === 0
}

/** Takes from all rows, which were read before, whether or not there is enough. */
export function takeRows(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): void {
  for (let place = 0; place < charges.length; place++) takeRow(rows, charges, results, place, nowMs, wallMs)
}

/** Takes from the row at `place` of the order, which was read before. */
export function takeRow(rows: TableRows, charges: Charges, results: ChargeResults, place: number, nowMs: number, wallMs: number): void {
  const row = rows.order[place]!
  const cost = charges.costs[row]!
  if (cost === 0) return
  const { limit, algorithm, isPlain, warning } = charges.counters[row] as EmbeddedCounter
  algorithm.take(rows.records[row]!, cost)
  results.levels[row] = algorithm.left(limit, rows.records[row]!)
  if (!isPlain) {
    if (algorithm.isSliced) results.levels[row]! -= rows.elsewhere[row]!
    if (warning !== undefined) warnRow(rows, results, row, warning)
  }
  writeRow(rows, place, nowMs, wallMs)
}

/** Writes the record of the row at `place` of the order, in a new slot if it has none. */
export function writeRow(rows: TableRows, place: number, nowMs: number, wallMs: number): void {
  const row = rows.order[place]!
  const { table } = rows
  const { level, at, size, rate } = rows.records[row]!
  const known = rows.slots[row]!
  const slot = known >= 0 ? known : claimSlot(rows, place, nowMs, wallMs)
  if (slot < 0) return
  rows.slots[row] = slot
  table.write(slot, level, at, size, rate)
}

function claimSlot(rows: TableRows, place: number, nowMs: number, wallMs: number): number {
  const row = rows.order[place]!
  const { table } = rows
  const record = rows.records[row]!
  const set = rows.sets[row]!
  const high = rows.highs[row]!
  const rule = rows.rules[row]!
  const low = record.kind === IN_FLIGHT ? sliceLow(rows.lows[row]!, record) : rows.lows[row]!
  const empty = table.claimEmpty(set, low, high, record.kind, rule)
  if (empty >= 0) return empty
  const worth = worthMs(record, nowMs, wallMs)
  return table.claim(set, low, high, record.kind, nowMs, wallMs, rows.slotsInUse(place), worth, rule)
}

/** Notes a share to warn of that the row's record has reached, before the record is written. */
export function warnRow(rows: TableRows, results: ChargeResults, row: number, limit: WindowLimit): void {
  const percent = newWarning(limit, rows.records[row]!)
  if (percent > 0) results.warn(row, percent)
}
