import { randomBytes } from 'node:crypto'
import { refill, waitMs } from '../limiter/bucket.ts'
import { dayWaitMs, untilMidnightMs, utcDay } from '../limiter/day.ts'
import { type Limit, sizeOf } from '../limiter/limit.ts'
import type { Charges } from './charges.ts'
import type { CounterSpec, CounterStore, StoreStats } from './counter-store.ts'
import type { HashState } from './half-sip-hash.ts'
import { newTableBuffer, SharedTable } from './shared-table.ts'
import { type HashedCounter, TableRows } from './table-rows.ts'

/** A store with a table of its own, in `bytes` of memory that it never exceeds. */
export function newEmbeddedStore(bytes: number): EmbeddedStore {
  // Unknown to callers, so that they cannot aim at one another's counters.
  const key = randomBytes(8)
  return new EmbeddedStore(new SharedTable(newTableBuffer(bytes), 1), [key.readInt32LE(0), key.readInt32LE(4)])
}

/** Counters in the process's own memory, shared by its threads. */
export class EmbeddedStore implements CounterStore {
  /** Of the charges at hand. */
  readonly rows: TableRows
  readonly #table: SharedTable

  constructor(table: SharedTable, hashKey: readonly [number, number]) {
    this.#table = table
    this.rows = new TableRows(table, hashKey)
  }

  open(spec: CounterSpec): EmbeddedCounter {
    return new EmbeddedCounter(spec, this.prefixOf(spec.identity))
  }

  /** Where the hash of each subject of a counter begins. */
  prefixOf(identity: readonly string[]): HashState {
    return this.rows.prefixOf(identity)
  }

  takeAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    const { rows } = this
    rows.locate(charges, wallMs)
    rows.lock()
    const fits = this.#lookAtAll(charges, nowMs, wallMs)
    charges.takenWallMs = wallMs
    charges.takenFrom = 'own'
    if (fits) for (let place = 0; place < charges.length; place++) this.#take(charges, place, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  checkAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    const { rows } = this
    rows.locate(charges, wallMs)
    rows.lock()
    const fits = this.#lookAtAll(charges, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  /**
   * Charges what was taken elsewhere, all rows or none: where no bucket needs more than comes back to it within `slackMs`.
   * The rows in `had` are charged whether or not there is enough.
   */
  chargeAll(charges: Charges, nowMs: number, wallMs: number, slackMs: number, had: readonly number[]): boolean {
    const { rows } = this
    rows.locate(charges, wallMs)
    rows.lock()
    let fits = true
    for (let row = 0; row < charges.length; row++) {
      const { limit } = charges.counters[row]!
      const isThere = this.#look(charges, row, nowMs, wallMs)
      const slack = limit.kind === 'bucket' ? limit.tokensPerMs * slackMs : 0
      fits = (isThere || charges.levels[row]! + slack >= charges.costs[row]! || had.includes(row)) && fits
    }
    if (fits) for (let place = 0; place < charges.length; place++) this.#take(charges, place, nowMs, wallMs)
    rows.unlock()
    return fits
  }

  settleAll(charges: Charges, nowMs: number, wallMs: number): void {
    const { rows } = this
    const { takenWallMs } = charges
    rows.locate(charges, takenWallMs)
    rows.lock()
    this.#lookAtAll(charges, nowMs, takenWallMs)
    for (let place = 0; place < charges.length; place++) this.#settle(charges, place, nowMs, wallMs, takenWallMs)
    rows.unlock()
  }

  /** Charges located buckets, under the locks of their rows, whether or not there is enough. */
  chargeLocated(charges: Charges, nowMs: number): void {
    for (let row = 0; row < charges.length; row++) this.#look(charges, row, nowMs, 0)
    for (let place = 0; place < charges.length; place++) this.#take(charges, place, nowMs, 0)
  }

  stats(): StoreStats {
    const { slotCount, occupiedSlots, forcedEvictions } = this.#table
    return { slots: slotCount, occupiedSlots, forcedEvictions }
  }

  #lookAtAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    let fits = true
    for (let row = 0; row < charges.length; row++) fits = this.#look(charges, row, nowMs, wallMs) && fits
    return fits
  }

  /** Writes the row's level and wait; answers whether the row would pass. */
  #look(charges: Charges, row: number, nowMs: number, wallMs: number): boolean {
    const counter = charges.counters[row] as EmbeddedCounter
    const limit = counter.limit
    const cost = charges.costs[row]!
    const { rows } = this
    const slot = this.#table.find(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!)
    rows.slots[row] = slot
    let wait: number
    if (limit.kind === 'bucket') {
      rows.ats[row] = nowMs
      const level = slot < 0 ? limit.burst : this.#bucketLevel(row, slot, counter, limit.tokensPerMs, limit.burst, nowMs)
      charges.levels[row] = level
      wait = waitMs(level, cost, limit.tokensPerMs, limit.burst)
    } else {
      const used = slot < 0 ? 0 : this.#table.level(slot)
      charges.levels[row] = Math.max(0, limit.tokensPerDay - used)
      wait = dayWaitMs(used, cost, limit.tokensPerDay, wallMs)
    }
    charges.waitsMs[row] = wait
    return wait === 0
  }

  #bucketLevel(row: number, slot: number, counter: EmbeddedCounter, tokensPerMs: number, burst: number, nowMs: number): number {
    const table = this.#table
    let level = table.level(slot)
    let at = table.at(slot)
    const size = table.size(slot)
    const rate = table.rate(slot)
    if (at < counter.sinceMs && (size !== counter.size || rate !== counter.rate)) {
      // Last touched under another limit: until the change, tokens came back at its rate and up to its size.
      level = refill(level, at, rate, size, counter.sinceMs)
      at = counter.sinceMs
    }
    // Never back in time: the refill between two moments is granted once.
    this.rows.ats[row] = Math.max(at, nowMs)
    return refill(level, at, tokensPerMs, burst, nowMs)
  }

  /** Takes the row at `place` of the order. */
  #take(charges: Charges, place: number, nowMs: number, wallMs: number): void {
    const row = this.rows.order[place]!
    const cost = charges.costs[row]!
    if (cost === 0) return
    charges.levels[row]! -= cost
    this.#write(charges, place, charges.levels[row]!, cost, nowMs, nowMs + untilMidnightMs(wallMs))
  }

  /** Gives the row at `place` of the order back. */
  #settle(charges: Charges, place: number, nowMs: number, wallMs: number, takenWallMs: number): void {
    const row = this.rows.order[place]!
    const { limit } = charges.counters[row]!
    const cost = charges.costs[row]!
    // A counter that is not there has nothing spent: a full bucket, or a day that is over.
    if (cost === 0 || (this.rows.slots[row]! < 0 && (cost > 0 || (limit.kind === 'day' && utcDay(wallMs) !== utcDay(takenWallMs))))) return
    const level = limit.kind === 'bucket' ? Math.min(charges.levels[row]! + cost, limit.burst) : 0
    this.#write(charges, place, level, -cost, nowMs, nowMs + untilMidnightMs(takenWallMs) + takenWallMs - wallMs)
  }

  /** Writes a bucket's new level, or adds what a day has spent, in a slot that is found if the row has none yet. */
  #write(charges: Charges, place: number, level: number, spent: number, nowMs: number, dayEndMs: number): void {
    const rows = this.rows
    const row = rows.order[place]!
    const counter = charges.counters[row] as EmbeddedCounter
    const table = this.#table
    const known = rows.slots[row]!
    const slot = known >= 0 ? known : table.claim(rows.sets[row]!, rows.lows[row]!, rows.highs[row]!, nowMs, rows.slotsInUse(place))
    if (slot < 0) return
    rows.slots[row] = slot
    if (counter.limit.kind === 'bucket') {
      table.write(slot, level, rows.ats[row]!, counter.size, counter.rate)
    } else {
      const used = known >= 0 ? table.level(slot) : 0
      table.write(slot, Math.max(0, used + spent), dayEndMs, counter.size, 0)
    }
  }
}

export class EmbeddedCounter implements HashedCounter {
  readonly limit: Limit
  readonly sinceMs: number
  readonly prefix: HashState
  /** As the table keeps them, in 24 bits. */
  readonly size: number
  readonly rate: number

  constructor(spec: CounterSpec, prefix: HashState) {
    this.limit = spec.limit
    this.sinceMs = spec.sinceMs
    this.prefix = prefix
    this.size = Math.fround(sizeOf(spec.limit))
    this.rate = Math.fround(spec.limit.kind === 'bucket' ? spec.limit.tokensPerMs : 0)
  }
}
