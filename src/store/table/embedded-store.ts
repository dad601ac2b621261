import { randomBytes } from 'node:crypto'
import { canOverdraw } from '../../limiter/limit.ts'
import { ChargeResults, Charges, type Taken } from '../charges.ts'
import { type CounterLocator, identityDigest, tagText } from '../counter-locator.ts'
import type { CounterSpec, CounterStore, OnWarning, Purpose, StoreStats } from '../counter-store.ts'
import { EmbeddedCounter, Resets, type SubjectLookup } from './embedded-counter.ts'
import {
  checkAsItIs,
  checkGrowth,
  checkRow,
  checkRows,
  forgetSlices,
  readRow,
  readTaken,
  takeRow,
  takeRows,
  warnRow,
  writeRow,
} from './row-records.ts'
import { SharedTable } from './shared-table.ts'
import { newTableBuffer, worthMs } from './table-layout.ts'
import { type CounterPlace, TableRows } from './table-rows.ts'

/** Creates a store with a table of its own, in `bytes` of memory that it never exceeds. */
export function newEmbeddedStore(bytes: number): EmbeddedStore {
  // The key is random, so that callers cannot choose whose counters theirs collide with.
  const key = randomBytes(8)
  return new EmbeddedStore(new SharedTable(newTableBuffer(bytes), 1), [key.readInt32LE(0), key.readInt32LE(4)])
}

/** Counters in the process's own memory, shared by its threads. */
export class EmbeddedStore implements CounterStore {
  readonly table: SharedTable
  readonly #hashKey: readonly [number, number]
  readonly #rows: TableRows
  readonly #resets: Resets
  /** Reused by settlements, which need only its warnings, and by charges of leases. */
  readonly #settled = new ChargeResults()
  /** Reused by charges of leases. */
  readonly #leaseCharge = new Charges()

  constructor(table: SharedTable, hashKey: readonly [number, number]) {
    this.table = table
    this.#hashKey = hashKey
    this.#rows = this.newRows()
    this.#resets = new Resets(table)
  }

  /** Creates rows for callers that locate and lock rows of the same table themselves. */
  newRows(): TableRows {
    return new TableRows(this.table, this.#hashKey)
  }

  open(spec: CounterSpec): EmbeddedCounter {
    return new EmbeddedCounter(spec, this.lookupOf(spec.identity))
  }

  lookupOf(identity: readonly string[]): SubjectLookup {
    return this.#rows.lookupOf(identity)
  }

  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose: Purpose = 'decision'): boolean {
    const rows = this.#locate(charges, results, wallMs)
    const fits =
      purpose === 'growth' ? checkGrowth(rows, charges, results, nowMs, wallMs) : checkRows(rows, charges, results, nowMs, wallMs)
    results.wallMs = wallMs
    results.momentMs = this.#resets.takeMoment(wallMs)
    results.takenFrom = 'local'
    if (fits) takeRows(rows, charges, results, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
    const rows = this.#locate(charges, results, wallMs)
    results.wallMs = wallMs
    const fits = checkRows(rows, charges, results, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void {
    const rows = this.#rows
    rows.locate(charges, taken.wallMs)
    const results = this.#settled
    results.growTo(charges.length)
    rows.lock()
    for (let row = 0; row < charges.length; row++) readTaken(rows, charges, row, nowMs, taken.wallMs)
    for (let rank = 0; rank < charges.length; rank++) this.#settle(rows, charges, rank, taken.momentMs, nowMs, wallMs)
    rows.unlock()
    if (!results.hasWarnings || onWarning === undefined) return
    const warnings = results.warnings.slice(0, charges.length)
    for (const [row, percent] of warnings.entries()) if (percent > 0) onWarning(row, percent)
  }

  renewAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): Taken {
    const renewed: Taken = { wallMs, momentMs: this.#resets.takeMoment(wallMs), from: 'local' }
    return this.moveHolds(charges, taken, wallMs, nowMs) ? renewed : taken
  }

  /** Moves holds to the slice of `wallMs`. Returns false, and moves none, if a counter was reset since they were taken. */
  moveHolds(charges: Charges, taken: Taken, wallMs: number, nowMs: number): boolean {
    const rows = this.#rows
    rows.locate(charges, wallMs)
    rows.lock()
    let isReset = false
    for (let row = 0; row < charges.length; row++) isReset = this.#isResetSince(rows, row, taken.momentMs) || isReset
    for (let rank = 0; !isReset && rank < charges.length; rank++) this.#moveHold(rows, charges, rank, taken, wallMs, nowMs)
    rows.unlock()
    return !isReset
  }

  locatorsOf(charges: Charges, { wallMs }: Taken): CounterLocator[] {
    const rows = this.#rows
    rows.locate(charges, wallMs)
    return Array.from({ length: charges.length }, (_, row) => {
      const { identity } = charges.counters[row] as EmbeddedCounter
      return { identity: identityDigest(identity), tag: tagText(rows.lows[row]!, rows.highs[row]!), key: undefined }
    })
  }

  settleLocated(charges: Charges, _taker: string | undefined, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): true {
    this.settleAll(charges, taken, nowMs, wallMs, onWarning)
    return true
  }

  renewLocated(charges: Charges, _taker: string | undefined, taken: Taken, nowMs: number, wallMs: number): Taken {
    return this.renewAll(charges, taken, nowMs, wallMs)
  }

  resetAll(charges: Charges, nowMs: number, wallMs: number): void {
    for (let row = 0; row < charges.length; row++) {
      if (!this.resetRow(charges, row, undefined, nowMs, wallMs))
        throw new Error('the system clock is behind an earlier reset: correct the clock')
    }
  }

  /**
   * Notes that a counter was reset at `momentMs`, by the clock of the store that shares it, or now if that is undefined, and forgets its
   * count from before. Returns false if that reset or a later one is known already.
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
    if (isNew && algorithm.isSliced) forgetSlices(this.table, set, low, high)
    this.table.unlock(set)
    return isNew
  }

  /** Raises a counter to `left`, the amount that is known to be left, if it is lower. A counter without a record is full already. */
  raiseRow(charges: Charges, row: number, left: number, nowMs: number, wallMs: number): void {
    const rows = this.#rows
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    rows.locate(charges, wallMs)
    rows.lock()
    readRow(rows, charges, row, nowMs, wallMs)
    const missing = left - algorithm.left(limit, rows.records[row]!)
    if (rows.slots[row]! >= 0 && missing > 0) {
      algorithm.settle(rows.records[row]!, missing)
      writeRow(rows, rows.order.indexOf(row), nowMs, wallMs)
    }
    rows.unlock()
  }

  /** As `checkAll`; also writes the moment of each counter's last reset, or 0, into `resetsMs`. */
  checkWithResets(charges: Charges, results: ChargeResults, resetsMs: Float64Array, nowMs: number, wallMs: number): boolean {
    const rows = this.#locate(charges, results, wallMs)
    const fits = checkRows(rows, charges, results, nowMs, wallMs)
    for (let row = 0; row < charges.length; row++) {
      resetsMs[row] = this.#resets.momentOf(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
    }
    rows.unlock()
    return fits
  }

  /**
   * Charges what was taken from the fleet to this process's own counters, all rows or none. Returns false if a counter lacks more than it
   * refills within `slackMs`. Rows in `along`, and those that can be overdrawn, are charged even if not enough is left: of two takes
   * from an overdrawn counter that the fleet granted, the one that overdrew it may be charged here first. Rows that were reset since are
   * not charged, nor are those in `leased`, because their leases were.
   */
  chargeAll(
    charges: Charges,
    results: ChargeResults,
    taken: Omit<Taken, 'from'>,
    times: ChargeTimes,
    slackMs: number,
    { along, leased }: ChargeExceptions,
  ): boolean {
    const { wallMs, momentMs } = taken
    const rows = this.#locate(charges, results, wallMs)
    let fits = true
    for (let row = 0; row < charges.length; row++) {
      if (leased.includes(row)) continue
      const isEnough = this.#readCharge(rows, charges, results, row, times, wallMs, slackMs)
      const isCharged = isEnough || canOverdraw(charges.counters[row]!.limit) || along.includes(row)
      fits = (isCharged || this.#isResetSince(rows, row, momentMs)) && fits
    }
    for (let rank = 0; fits && rank < charges.length; rank++) {
      const row = rows.order[rank]!
      if (!leased.includes(row) && !this.#isResetSince(rows, row, momentMs)) takeRow(rows, charges, results, rank, times.nowMs, wallMs)
    }
    rows.unlock()
    return fits
  }

  /**
   * Charges a lease that the fleet granted, to a counter whose set the caller has locked. Returns false, and charges nothing, if the counter
   * lacks more than it refills within `slackMs`.
   */
  chargeLease(place: CounterPlace, counter: EmbeddedCounter, tokens: number, times: ChargeTimes, wallMs: number, slackMs: number): boolean {
    const rows = this.#rows
    const charges = this.#leaseCharge
    const results = this.#settled
    charges.clear()
    charges.add(counter, tokens)
    rows.locateAt(place, counter.rule)
    const isEnough = this.#readCharge(rows, charges, results, 0, times, wallMs, slackMs)
    if (isEnough) takeRow(rows, charges, results, 0, times.nowMs, wallMs)
    return isEnough
  }

  /** Credits tokens of a lease that were not used, to a counter whose set the caller has locked. One without a record is full. */
  creditLease({ set, low, high }: CounterPlace, tokens: number): void {
    const { table } = this
    const slot = table.find(set, low, high)
    // What refills from the record's time on, up to its size, can be added before or after this.
    if (slot >= 0)
      table.write(slot, Math.min(table.level(slot) + tokens, table.size(slot)), table.at(slot), table.size(slot), table.rate(slot))
  }

  /** Returns whether the counter with this tag was reset after a take at `takenMs`. The caller holds the set's lock. */
  isResetSince(set: number, low: number, high: number, takenMs: number): boolean {
    return this.#resets.isSince(set, low, high, takenMs)
  }

  stats(): StoreStats {
    const { slotCount, occupiedSlots, forcedEvictions } = this.table
    return { slots: slotCount, occupiedSlots, forcedEvictions }
  }

  /** Locates and locks the rows. The caller unlocks them before it returns: they are used for one question at a time. */
  #locate(charges: Charges, results: ChargeResults, wallMs: number): TableRows {
    const rows = this.#rows
    rows.locate(charges, wallMs)
    results.growTo(charges.length)
    rows.lock()
    return rows
  }

  /**
   * Reads a row for a charge of what the fleet granted; a counter whose limit has changed since the fleet was asked keeps its new limit.
   * Returns whether it lacks no more than it refills within `slackMs`.
   */
  #readCharge(
    rows: TableRows,
    charges: Charges,
    results: ChargeResults,
    row: number,
    { nowMs, askedMs }: ChargeTimes,
    wallMs: number,
    slackMs: number,
  ): boolean {
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    const isChanged = this.#isChangedSince(rows, charges, row, askedMs)
    const isEnough = isChanged ? checkAsItIs(rows, charges, results, row) : checkRow(rows, charges, results, row, nowMs, wallMs)
    return isEnough || results.levels[row]! + algorithm.refillIn(limit, slackMs) >= charges.costs[row]!
  }

  /** Settles the row at position `rank` of the lock order, whose record has been read. */
  #settle(rows: TableRows, charges: Charges, rank: number, takenMs: number, nowMs: number, wallMs: number): void {
    const row = rows.order[rank]!
    const { algorithm, warning } = charges.counters[row] as EmbeddedCounter
    const cost = charges.costs[row]!
    const exists = rows.slots[row]! >= 0
    // A counter without a record is full, so there is nothing to give back to. A hold is charged only to a slice that has a record.
    if (cost === 0 || (!exists && (cost > 0 || algorithm.isSliced))) return
    if (this.#isResetSince(rows, row, takenMs)) return
    const record = rows.records[row]!
    algorithm.settle(record, cost)
    // A debt of a window that has ended is dropped.
    if (!exists && worthMs(record, nowMs, wallMs) === 0) return
    if (warning !== undefined && cost < 0) warnRow(rows, this.#settled, row, warning)
    writeRow(rows, rank, nowMs, wallMs)
  }

  /** Moves the hold of the row at position `rank` of the lock order, if its counter has slices. */
  #moveHold(rows: TableRows, charges: Charges, rank: number, taken: Taken, wallMs: number, nowMs: number): void {
    const row = rows.order[rank]!
    const { algorithm } = charges.counters[row] as EmbeddedCounter
    if (!algorithm.isSliced) return
    const record = rows.records[row]!
    const cost = charges.costs[row]!
    rows.slots[row] = -1
    if (taken.from !== 'none') readTaken(rows, charges, row, nowMs, taken.wallMs)
    if (rows.slots[row]! >= 0) {
      algorithm.settle(record, cost)
      writeRow(rows, rank, nowMs, wallMs)
    }
    readRow(rows, charges, row, nowMs, wallMs)
    algorithm.take(record, cost)
    writeRow(rows, rank, nowMs, wallMs)
  }

  /** Returns whether a decision since then has given the counter another limit, because an override came into force or ended. */
  #isChangedSince(rows: TableRows, charges: Charges, row: number, askedMs: number): boolean {
    const { limit, algorithm } = charges.counters[row] as EmbeddedCounter
    if (algorithm.clock !== 'monotonic') return false
    const slot = this.table.find(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
    return slot >= 0 && this.table.at(slot) > askedMs && this.table.size(slot) !== Math.fround(algorithm.size(limit))
  }

  #isResetSince(rows: TableRows, row: number, takenMs: number): boolean {
    return this.isResetSince(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!, takenMs)
  }
}

/** Rows that are charged otherwise than the rest. */
interface ChargeExceptions {
  /** They are charged even if not enough is left. */
  readonly along: readonly number[]
  /** They were charged when their lease was granted. */
  readonly leased: readonly number[]
}

/** When the fleet was asked and when its reply is charged, on the monotonic clock. */
interface ChargeTimes {
  readonly askedMs: number
  readonly nowMs: number
}
