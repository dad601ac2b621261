import { randomBytes } from 'node:crypto'
import type { Algorithm } from '../limiter/algorithms/algorithm.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { Limit } from '../limiter/limit.ts'
import type { ChargeResults } from './charge-results.ts'
import type { Charges } from './charges.ts'
import type { CounterSpec, CounterStore, StoreStats } from './counter-store.ts'
import type { HashState } from './half-sip-hash.ts'
import { spentShare } from './record-kinds.ts'
import { Resets } from './resets.ts'
import { SharedTable } from './shared-table.ts'
import { newTableBuffer } from './table-layout.ts'
import { type HashedCounter, TableRows } from './table-rows.ts'
import type { Taken } from './taken.ts'

/** A store with a table of its own, in `bytes` of memory that it never exceeds. */
export function newEmbeddedStore(bytes: number): EmbeddedStore {
  // Unknown to callers, so that they cannot aim at one another's counters.
  const key = randomBytes(8)
  return new EmbeddedStore(new SharedTable(newTableBuffer(bytes), 1), [key.readInt32LE(0), key.readInt32LE(4)])
}

/** Counters in the process's own memory, shared by its threads. */
export class EmbeddedStore implements CounterStore {
  readonly table: SharedTable
  readonly #hashKey: readonly [number, number]
  readonly #rows: TableRows
  readonly #resets: Resets

  constructor(table: SharedTable, hashKey: readonly [number, number]) {
    this.table = table
    this.#hashKey = hashKey
    this.#rows = this.newRows()
    this.#resets = new Resets(table)
  }

  /** For whoever locates and locks rows of its own in the same table. */
  newRows(): TableRows {
    return new TableRows(this.table, this.#hashKey)
  }

  open(spec: CounterSpec): EmbeddedCounter {
    return new EmbeddedCounter(spec, this.prefixOf(spec.identity))
  }

  /** Where the hash of each subject of a counter begins. */
  prefixOf(identity: readonly string[]): HashState {
    return this.#rows.prefixOf(identity)
  }

  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
    const rows = this.#rows
    rows.locate(charges, wallMs)
    results.growTo(charges.length)
    rows.lock()
    const fits = this.#lookAtAll(rows, charges, results, nowMs, wallMs)
    results.wallMs = wallMs
    results.momentMs = this.#resets.takeMoment(wallMs)
    results.takenFrom = 'local'
    if (fits) for (let place = 0; place < charges.length; place++) this.#take(rows, charges, results, place, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
    const rows = this.#locate(charges, results, wallMs)
    results.wallMs = wallMs
    const fits = this.#lookAtAll(rows, charges, results, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): void {
    const rows = this.#rows
    rows.locate(charges, taken.wallMs)
    rows.lock()
    for (let row = 0; row < charges.length; row++) this.#look(rows, charges, row, nowMs, taken.wallMs)
    for (let place = 0; place < charges.length; place++) this.#settle(rows, charges, place, taken.momentMs, nowMs, wallMs)
    rows.unlock()
  }

  resetAll(charges: Charges, nowMs: number, wallMs: number): void {
    for (let row = 0; row < charges.length; row++) {
      if (!this.resetRow(charges, row, undefined, nowMs, wallMs)) throw new Error('a reset from a later time is known: set the clock right')
    }
  }

  /**
   * Notes that a counter was reset at `momentMs`, by the clock of the store that it is shared in, or else now, and forgets what was counted
   * before. Returns false where that reset, or a later one, is known already.
   */
  resetRow(charges: Charges, row: number, momentMs: number | undefined, nowMs: number, wallMs: number): boolean {
    const rows = this.#rows
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    rows.locate(charges, wallMs)
    const record = rows.records[row]!
    algorithm.begin(limit, record, nowMs, wallMs)
    const [set, low, high] = [rows.sets[row]!, rows.lows[row]!, rows.highs[row]!]
    this.table.lock(set)
    const windowEndMs = algorithm.clock === 'wall' ? record.at : 0
    const moment = momentMs ?? this.#resets.nextMoment(set, low, high, wallMs)
    const isNew = this.#resets.note(set, low, high, moment, windowEndMs, nowMs, wallMs)
    this.table.unlock(set)
    return isNew
  }

  /** As `checkAll`; `resetsMs` gets the moment of each counter's last reset, or 0. */
  checkWithResets(charges: Charges, results: ChargeResults, resetsMs: Float64Array, nowMs: number, wallMs: number): boolean {
    const rows = this.#locate(charges, results, wallMs)
    const fits = this.#lookAtAll(rows, charges, results, nowMs, wallMs)
    for (let row = 0; row < charges.length; row++) {
      resetsMs[row] = this.#resets.momentOf(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
    }
    rows.unlock()
    return fits
  }

  /**
   * Charges what was taken elsewhere, all rows or none: where no counter needs more than comes
   * back to it within `slackMs`. The rows in `paid` are charged whether or not there is enough, and those that were reset since are not.
   */
  chargeAll(
    charges: Charges,
    results: ChargeResults,
    taken: Omit<Taken, 'from'>,
    nowMs: number,
    slackMs: number,
    paid: readonly number[],
  ): boolean {
    const { wallMs, momentMs } = taken
    const rows = this.#locate(charges, results, wallMs)
    let fits = true
    for (let row = 0; row < charges.length; row++) {
      const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
      const isThere = this.#answer(rows, charges, results, row, nowMs, wallMs)
      const slack = algorithm.refillIn(limit, slackMs)
      const isCharged = isThere || results.levels[row]! + slack >= charges.costs[row]! || paid.includes(row)
      fits = (isCharged || this.#isResetSince(rows, row, momentMs)) && fits
    }
    for (let place = 0; fits && place < charges.length; place++) {
      if (!this.#isResetSince(rows, rows.order[place]!, momentMs)) this.#take(rows, charges, results, place, nowMs, wallMs)
    }
    rows.unlock()
    return fits
  }

  /** Whether the counter in that place was reset after a take at `takenMs`. For whoever has the set's lock. */
  isResetSince(set: number, low: number, high: number, takenMs: number): boolean {
    return this.#resets.isSince(set, low, high, takenMs)
  }

  /** Charges rows that the caller has located and locked, whether or not there is enough. */
  chargeLocated(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): void {
    results.growTo(charges.length)
    for (let row = 0; row < charges.length; row++) this.#look(rows, charges, row, nowMs, wallMs)
    for (let place = 0; place < charges.length; place++) this.#take(rows, charges, results, place, nowMs, wallMs)
  }

  stats(): StoreStats {
    const { slotCount, occupiedSlots, forcedEvictions } = this.table
    return { slots: slotCount, occupiedSlots, forcedEvictions }
  }

  /** Locks them, too. Whoever calls unlocks before it returns, so that the rows serve one question at a time. */
  #locate(charges: Charges, results: ChargeResults, wallMs: number): TableRows {
    const rows = this.#rows
    rows.locate(charges, wallMs)
    results.growTo(charges.length)
    rows.lock()
    return rows
  }

  #lookAtAll(rows: TableRows, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
    let fits = true
    for (let row = 0; row < charges.length; row++) fits = this.#answer(rows, charges, results, row, nowMs, wallMs) && fits
    return fits
  }

  /** Writes the row's level and wait; returns whether the row would pass. */
  #answer(rows: TableRows, charges: Charges, results: ChargeResults, row: number, nowMs: number, wallMs: number): boolean {
    this.#look(rows, charges, row, nowMs, wallMs)
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    const left = algorithm.left(limit, rows.records[row]!)
    const waitMs = algorithm.waitMs(limit, left, charges.costs[row]!, wallMs)
    results.levels[row] = left
    results.waitsMs[row] = waitMs
    return waitMs === 0
  }

  /** Reads the row's record as it is at this moment. */
  #look(rows: TableRows, charges: Charges, row: number, nowMs: number, wallMs: number): void {
    const { limit, algorithm, sinceMs } = charges.counters[row] as EmbeddedCounter
    const record = rows.records[row]!
    const slot = this.table.find(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
    rows.slots[row] = slot
    if (slot < 0) {
      algorithm.begin(limit, record, nowMs, wallMs)
    } else {
      this.table.read(slot, record)
      algorithm.look(limit, record, sinceMs, nowMs)
    }
  }

  /** Takes the row at `place` of the order. */
  #take(rows: TableRows, charges: Charges, results: ChargeResults, place: number, nowMs: number, wallMs: number): void {
    const row = rows.order[place]!
    const cost = charges.costs[row]!
    if (cost === 0) return
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    algorithm.take(rows.records[row]!, cost)
    results.levels[row] = algorithm.left(limit, rows.records[row]!)
    this.#write(rows, place, nowMs, wallMs)
  }

  /** Gives the row at `place` of the order back. */
  #settle(rows: TableRows, charges: Charges, place: number, takenMs: number, nowMs: number, wallMs: number): void {
    const row = rows.order[place]!
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    const cost = charges.costs[row]!
    const isThere = rows.slots[row]! >= 0
    // A counter that is not there has nothing spent that could go back.
    if (cost === 0 || (!isThere && cost > 0)) return
    if (this.#isResetSince(rows, row, takenMs)) return
    const record = rows.records[row]!
    algorithm.settle(limit, record, cost)
    // Nor is a debt carried into a window that is over.
    if (isThere || spentShare(record, nowMs, wallMs) > 0) this.#write(rows, place, nowMs, wallMs)
  }

  #isResetSince(rows: TableRows, row: number, takenMs: number): boolean {
    return this.isResetSince(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!, takenMs)
  }

  /** Writes the row's record, in a slot that is found if it has none yet. */
  #write(rows: TableRows, place: number, nowMs: number, wallMs: number): void {
    const row = rows.order[place]!
    const { kind, level, at, size, rate } = rows.records[row]!
    const known = rows.slots[row]!
    const slot =
      known >= 0 ? known : this.table.claim(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!, kind, nowMs, wallMs, rows.slotsInUse(place))
    if (slot < 0) return
    rows.slots[row] = slot
    this.table.write(slot, level, at, size, rate)
  }
}

export class EmbeddedCounter implements HashedCounter {
  readonly limit: Limit
  readonly algorithm: Algorithm<Limit>
  readonly sinceMs: number
  readonly prefix: HashState

  constructor(spec: CounterSpec, prefix: HashState) {
    this.limit = spec.limit
    this.algorithm = algorithmOf(spec.limit)
    this.sinceMs = spec.sinceMs
    this.prefix = prefix
  }
}
