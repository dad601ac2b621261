import { SLICES, sliceIndex } from '../../limiter/algorithms/in-flight.ts'
import { newWarning } from '../../limiter/algorithms/window.ts'
import { type CounterRecord, IN_FLIGHT, type WindowLimit } from '../../limiter/limit.ts'
import type { ChargeResults, Charges } from '../charges.ts'
import type { EmbeddedCounter } from './embedded-counter.ts'
import type { SharedTable } from './shared-table.ts'
import { worthMs } from './table-layout.ts'
import type { TableRows } from './table-rows.ts'

// These functions read, check, charge and write the records of located rows. Callers hold the locks of all rows.

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
    // The rule is noted even if nothing will be taken: a caller whose limit is used up is rejected, so its record is never written.
    table.adopt(slot, rows.rules[row]!)
    table.read(slot, record)
    algorithm.refresh(limit, record, record.at < counter.lateMs ? counter.sinceFor(record.at, record.size) : sinceMs, nowMs)
  }
}

/** Reads the record that was charged at `takenWallMs`, so that it can be corrected. */
export function readTaken(rows: TableRows, charges: Charges, row: number, nowMs: number, takenWallMs: number): void {
  const counter = charges.counters[row] as EmbeddedCounter
  if (counter.algorithm.isSliced) readSlice(rows, row, counter, nowMs, takenWallMs)
  else readRow(rows, charges, row, nowMs, takenWallMs)
}

/** Reads all rows and writes the level and wait of each to `results`. Returns whether all would pass. */
export function checkRows(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
  let fits = true
  for (let row = 0; row < charges.length; row++) fits = checkRow(rows, charges, results, row, nowMs, wallMs) && fits
  return fits
}

/** As `checkRows`, for a reservation that grows: only its windows can refuse. */
export function checkGrowth(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
  let fits = true
  for (let row = 0; row < charges.length; row++) {
    const isEnough = checkRow(rows, charges, results, row, nowMs, wallMs)
    fits = (isEnough || !(charges.counters[row] as EmbeddedCounter).algorithm.hasWindows) && fits
  }
  return fits
}

/** Reads the row and writes its level and wait to `results`. Returns whether it would pass. */
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

/** As `checkRow`, for a bucket whose record has another limit than the row: the record keeps that limit. */
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

/** Takes from all rows, whose records have been read, even if not enough is left. */
export function takeRows(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): void {
  for (let rank = 0; rank < charges.length; rank++) takeRow(rows, charges, results, rank, nowMs, wallMs)
}

/** Takes from the row at position `rank` of the lock order, whose record has been read. */
export function takeRow(rows: TableRows, charges: Charges, results: ChargeResults, rank: number, nowMs: number, wallMs: number): void {
  const row = rows.order[rank]!
  const cost = charges.costs[row]!
  if (cost === 0) return
  const { limit, algorithm, isPlain, warning } = charges.counters[row] as EmbeddedCounter
  algorithm.take(rows.records[row]!, cost)
  results.levels[row] = algorithm.left(limit, rows.records[row]!)
  if (!isPlain) {
    if (algorithm.isSliced) results.levels[row]! -= rows.elsewhere[row]!
    if (warning !== undefined) warnRow(rows, results, row, warning)
  }
  writeRow(rows, rank, nowMs, wallMs)
}

/** Writes the record of the row at position `rank` of the lock order, to a new slot if it has none. */
export function writeRow(rows: TableRows, rank: number, nowMs: number, wallMs: number): void {
  const row = rows.order[rank]!
  const { table } = rows
  const { level, at, size, rate } = rows.records[row]!
  const known = rows.slots[row]!
  const slot = known >= 0 ? known : claimSlot(rows, rank, nowMs, wallMs)
  if (slot < 0) return
  rows.slots[row] = slot
  table.write(slot, level, at, size, rate)
}

function claimSlot(rows: TableRows, rank: number, nowMs: number, wallMs: number): number {
  const row = rows.order[rank]!
  const { table } = rows
  const record = rows.records[row]!
  const set = rows.sets[row]!
  const high = rows.highs[row]!
  const rule = rows.rules[row]!
  const low = record.kind === IN_FLIGHT ? sliceLow(rows.lows[row]!, record) : rows.lows[row]!
  const empty = table.claimEmpty(set, low, high, record.kind, rule)
  if (empty >= 0) return empty
  const worth = worthMs(record, nowMs, wallMs)
  return table.claim(set, low, high, record.kind, nowMs, wallMs, rows.slotsInUse(rank), worth, rule)
}

/** Notes the share to warn of that the row's record has newly reached, if any. The record remembers it, so this comes before the write. */
export function warnRow(rows: TableRows, results: ChargeResults, row: number, limit: WindowLimit): void {
  const percent = newWarning(limit, rows.records[row]!)
  if (percent > 0) results.warn(row, percent)
}

/*
 * A counter with slices has a record for each of the eight slices that count. All are in the counter's set, so one lock covers them. The
 * tag of a record says which of the eight it is: a new slice replaces the one that stopped counting when it began. Callers hold the locks
 * of all rows.
 */

/** Derives the tags of the slices from the counter's. */
const SALT = 0x0511_ce00

/** Reads the record of the current slice, and adds up the holds in the others. */
function readSlices(rows: TableRows, row: number, { limit, algorithm }: EmbeddedCounter, nowMs: number, wallMs: number): void {
  const { table } = rows
  const record = rows.records[row]!
  algorithm.begin(limit, record, nowMs, wallMs)
  const { at, rate: sliceMs } = record
  // If this slot holds another slice, that one no longer counts and may be overwritten.
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

/** Reads the record of the slice at `wallMs`. The row's slot is -1 if the holds in it no longer count. */
function readSlice(rows: TableRows, row: number, { limit, algorithm }: EmbeddedCounter, nowMs: number, wallMs: number): void {
  const { table } = rows
  const record = rows.records[row]!
  algorithm.begin(limit, record, nowMs, wallMs)
  const slot = findSlice(rows, row, record)
  rows.slots[row] = slot >= 0 && table.at(slot) === record.at ? slot : -1
  if (rows.slots[row]! >= 0) record.level = table.level(slot)
}

/** Derives the low word of a slice's tag from the counter's. */
function sliceLow(low: number, record: CounterRecord): number {
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
