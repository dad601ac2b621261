import { randomBytes } from 'node:crypto'
import { refill, waitMs } from '../limiter/bucket.ts'
import { dayWaitMs, untilMidnightMs, utcDay } from '../limiter/day.ts'
import { type Limit, sizeOf } from '../limiter/limit.ts'
import type { Charges, Counter } from './charges.ts'
import type { CounterSpec, CounterStore, StoreStats } from './counter-store.ts'
import { HalfSipHash, type HashState } from './half-sip-hash.ts'
import { newTableBuffer, SharedTable, wayOf } from './shared-table.ts'
import { SubjectWords } from './subject.ts'

/** A store with a table of its own, in `bytes` of memory that it never exceeds. */
export function newEmbeddedStore(bytes: number): EmbeddedStore {
  // Unknown to callers, so that they cannot aim at one another's counters.
  const key = randomBytes(8)
  return new EmbeddedStore(new SharedTable(newTableBuffer(bytes), 1), [key.readInt32LE(0), key.readInt32LE(4)])
}

// Insertion beats a comparator call up to here.
const FEW_ROWS = 16

/** Counters in the process's own memory, shared by its threads. */
export class EmbeddedStore implements CounterStore {
  readonly #table: SharedTable
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()
  // Per row of the charges at hand
  #lows = new Int32Array(0)
  #highs = new Int32Array(0)
  #sets = new Int32Array(0)
  #slots = new Int32Array(0)
  /** When the row's level is true; buckets alone. */
  #ats = new Float64Array(0)
  /** The rows by ascending set: locks are always taken in this order. */
  #order = new Int32Array(0)

  constructor(table: SharedTable, hashKey: readonly [number, number]) {
    this.#table = table
    this.#hash = new HalfSipHash(hashKey)
  }

  open(spec: CounterSpec): EmbeddedCounter {
    return new EmbeddedCounter(spec, this.prefixOf(spec.identity))
  }

  /** Where the hash of each subject of a counter begins. */
  prefixOf(identity: readonly string[]): HashState {
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(identity)
    return this.#hash.absorb(subject.words, subject.length)
  }

  takeAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    this.#locate(charges, wallMs)
    this.#lockSets(charges.length)
    const fits = this.#lookAtAll(charges, nowMs, wallMs)
    charges.takenWallMs = wallMs
    charges.takenFrom = 'own'
    if (fits) for (let place = 0; place < charges.length; place++) this.#take(charges, place, nowMs, wallMs)
    this.#unlockSets(charges.length)
    return fits
  }

  checkAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    this.#locate(charges, wallMs)
    this.#lockSets(charges.length)
    const fits = this.#lookAtAll(charges, nowMs, wallMs)
    this.#unlockSets(charges.length)
    return fits
  }

  settleAll(charges: Charges, nowMs: number, wallMs: number): void {
    const { takenWallMs } = charges
    this.#locate(charges, takenWallMs)
    this.#lockSets(charges.length)
    this.#lookAtAll(charges, nowMs, takenWallMs)
    for (let place = 0; place < charges.length; place++) this.#settle(charges, place, nowMs, wallMs, takenWallMs)
    this.#unlockSets(charges.length)
  }

  stats(): StoreStats {
    const { slotCount, occupiedSlots, forcedEvictions } = this.#table
    return { slots: slotCount, occupiedSlots, forcedEvictions }
  }

  #locate(charges: Charges, wallMs: number): void {
    if (charges.length > this.#lows.length) this.#growTo(charges.length)
    const hash = this.#hash
    const subject = this.#subject
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as EmbeddedCounter
      subject.clear()
      for (let i = charges.valuesFrom[row]!; i < charges.valuesFrom[row + 1]!; i++) subject.addText(charges.values[i]!)
      // Each day is a counter of its own, so that what belongs to one can never land in another.
      if (counter.limit.kind === 'day') subject.addWord(utcDay(wallMs))
      hash.digest(subject.words, subject.length, counter.prefix)
      this.#lows[row] = hash.low
      this.#highs[row] = hash.high
      this.#sets[row] = this.#table.setOf(hash.high)
      this.#order[row] = row
    }
    if (charges.length > 1) this.#sortBySet(charges.length)
  }

  #sortBySet(count: number): void {
    const order = this.#order
    const sets = this.#sets
    if (count > FEW_ROWS) {
      order.subarray(0, count).sort((a, b) => sets[a]! - sets[b]!)
      return
    }
    for (let i = 1; i < count; i++) {
      const row = order[i]!
      let place = i
      for (; place > 0 && sets[order[place - 1]!]! > sets[row]!; place--) order[place] = order[place - 1]!
      order[place] = row
    }
  }

  #lockSets(count: number): void {
    let locked = -1
    for (let i = 0; i < count; i++) {
      const set = this.#sets[this.#order[i]!]!
      if (set !== locked) this.#table.lock(set)
      locked = set
    }
  }

  #unlockSets(count: number): void {
    let unlocked = -1
    for (let i = 0; i < count; i++) {
      const set = this.#sets[this.#order[i]!]!
      if (set !== unlocked) this.#table.unlock(set)
      unlocked = set
    }
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
    const slot = this.#table.find(this.#sets[row]!, this.#lows[row]!, this.#highs[row]!)
    this.#slots[row] = slot
    let wait: number
    if (limit.kind === 'bucket') {
      this.#ats[row] = nowMs
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
    this.#ats[row] = Math.max(at, nowMs)
    return refill(level, at, tokensPerMs, burst, nowMs)
  }

  /** Takes the row at `place` of the order. */
  #take(charges: Charges, place: number, nowMs: number, wallMs: number): void {
    const row = this.#order[place]!
    const cost = charges.costs[row]!
    if (cost === 0) return
    charges.levels[row]! -= cost
    this.#write(charges, place, charges.levels[row]!, cost, nowMs, nowMs + untilMidnightMs(wallMs))
  }

  /** Gives the row at `place` of the order back. */
  #settle(charges: Charges, place: number, nowMs: number, wallMs: number, takenWallMs: number): void {
    const row = this.#order[place]!
    const { limit } = charges.counters[row]!
    const cost = charges.costs[row]!
    // A counter that is not there has nothing spent: a full bucket, or a day that is over.
    if (cost === 0 || (this.#slots[row]! < 0 && (cost > 0 || (limit.kind === 'day' && utcDay(wallMs) !== utcDay(takenWallMs))))) return
    const level = limit.kind === 'bucket' ? Math.min(charges.levels[row]! + cost, limit.burst) : 0
    this.#write(charges, place, level, -cost, nowMs, nowMs + untilMidnightMs(takenWallMs) + takenWallMs - wallMs)
  }

  /** Writes a bucket's new level, or adds what a day has spent, in a slot that is found if the row has none yet. */
  #write(charges: Charges, place: number, level: number, spent: number, nowMs: number, dayEndMs: number): void {
    const row = this.#order[place]!
    const counter = charges.counters[row] as EmbeddedCounter
    const table = this.#table
    const known = this.#slots[row]!
    const slot =
      known >= 0
        ? known
        : table.claim(this.#sets[row]!, this.#lows[row]!, this.#highs[row]!, nowMs, this.#slotsInUse(place, charges.length))
    if (slot < 0) return
    this.#slots[row] = slot
    if (counter.limit.kind === 'bucket') {
      table.write(slot, level, this.#ats[row]!, counter.size, counter.rate)
    } else {
      const used = known >= 0 ? table.level(slot) : 0
      table.write(slot, Math.max(0, used + spent), dayEndMs, counter.size, 0)
    }
  }

  /** A bit for each slot of the set that this very decision uses: they must not be evicted for one another. */
  #slotsInUse(place: number, count: number): number {
    const set = this.#sets[this.#order[place]!]!
    let bits = 0
    let first = place
    while (first > 0 && this.#sets[this.#order[first - 1]!] === set) first--
    for (let i = first; i < count && this.#sets[this.#order[i]!] === set; i++) {
      const slot = this.#slots[this.#order[i]!]!
      if (slot >= 0) bits |= 1 << wayOf(slot)
    }
    return bits
  }

  #growTo(rows: number): void {
    const size = Math.max(16, rows * 2)
    this.#lows = new Int32Array(size)
    this.#highs = new Int32Array(size)
    this.#sets = new Int32Array(size)
    this.#slots = new Int32Array(size)
    this.#ats = new Float64Array(size)
    this.#order = new Int32Array(size)
  }
}

export class EmbeddedCounter implements Counter {
  readonly limit: Limit
  readonly sinceMs: number
  /** The hash after the identity, where each subject's hash begins. */
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
