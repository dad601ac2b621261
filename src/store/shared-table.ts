import { type CounterRecord, newRecord } from '../limiter/record.ts'
import { acquire, ownerOf, release, tryAcquire } from '../shared-lock.ts'
import { spentShare } from './record-kinds.ts'
import {
  firstMark,
  KIND_BITS,
  LANE_EVICTIONS,
  LANE_OCCUPIED,
  LANE_WRITING,
  LANES_BYTES,
  LAST_RESET,
  laneWord,
  MAX_OWNERS,
  MIN_TABLE_BYTES,
  markOf,
  NO_UPPER_BITS,
  recordWord,
  SET_BYTES,
  setWord,
  TAG_BITS,
  tagWord,
  WAYS,
  wayOf,
} from './table-layout.ts'

/**
 * The memory that all threads share: a set-associative table of counters in one SharedArrayBuffer.
 *
 * A key's hash names one set, and the key is in one of that set's slots or nowhere: a lookup reads the set's marks
 * and never stops at a hole, so slots are reused without tombstones, and one lock covers everything a key
 * can touch. The size is fixed at startup; there is no object per key.
 *
 *     set    lock, spare | 32 × mark (16 bits of the tag; 0 = empty) | 32 × record
 *     record kind (8 bits), spare (7), the tag's other 49 bits | level (f64) | at (f64) | size (f32) | rate (f32)
 *
 * A lookup scans the marks: two cache lines, and then nearly always the one record that it wants. What the numbers of a record mean
 * depends on its kind (`limiter/algorithms/`, `record-kinds.ts`).
 */
export class SharedTable {
  readonly setCount: number
  readonly #owner: number
  readonly #marks: Uint16Array
  readonly #words: Int32Array
  readonly #floats: Float32Array
  readonly #doubles: Float64Array
  readonly #scratch = newRecord()

  /** Each thread has a table object of its own for the buffer, with its own owner number (1 to 255). */
  constructor(buffer: SharedArrayBuffer, owner: number) {
    this.setCount = Math.floor((buffer.byteLength - LANES_BYTES) / SET_BYTES)
    if (this.setCount < 1) throw new RangeError(`a table needs at least ${MIN_TABLE_BYTES} bytes, got ${buffer.byteLength}`)
    if (!Number.isInteger(owner) || owner < 1 || owner >= MAX_OWNERS) throw new RangeError(`no such owner: ${owner}`)
    this.#owner = owner
    this.#marks = new Uint16Array(buffer)
    this.#words = new Int32Array(buffer)
    this.#floats = new Float32Array(buffer)
    this.#doubles = new Float64Array(buffer)
  }

  get slotCount(): number {
    return this.setCount * WAYS
  }

  /** Slots that hold a key, including those that are full again. */
  get occupiedSlots(): number {
    return this.#sumLanes(LANE_OCCUPIED)
  }

  /** The latest moment of any reset in the table. */
  get lastResetMs(): number {
    return this.#doubles[LAST_RESET]!
  }

  /** There is no lock for all sets: of two concurrent resets, the earlier one may remain here. */
  set lastResetMs(momentMs: number) {
    this.#doubles[LAST_RESET] = momentMs
  }

  get forcedEvictions(): number {
    return this.#sumLanes(LANE_EVICTIONS)
  }

  setOf(high: number): number {
    return Math.floor((high >>> 0) * (this.setCount / 0x1_0000_0000))
  }

  lock(set: number): void {
    acquire(this.#words, setWord(set), this.#owner)
  }

  /** Does not wait. Returns whether the lock was free. */
  tryLock(set: number): boolean {
    return tryAcquire(this.#words, setWord(set), this.#owner)
  }

  unlock(set: number): void {
    release(this.#words, setWord(set))
  }

  /** Whether no slot holds a key. Without the lock, because locking would touch memory that was never used. */
  isEmpty(set: number): boolean {
    const first = firstMark(set) / 2 // two marks a word
    for (let word = 0; word < WAYS / 2; word++) if (this.#words[first + word] !== 0) return false
    return true
  }

  /** The slot that holds the key, or -1. Under the set's lock, like all methods below. */
  find(set: number, low: number, high: number): number {
    const marks = this.#marks
    const first = firstMark(set)
    const mark = markOf(low)
    const word = tagWord(low)
    for (let way = 0; way < WAYS; way++) {
      if (marks[first + way] !== mark) continue
      const slot = set * WAYS + way
      const record = recordWord(slot)
      if ((this.#words[record]! & TAG_BITS) === word && this.#words[record + 1] === high) return slot
    }
    return -1
  }

  isOccupied(slot: number): boolean {
    return this.#marks[firstMark((slot / WAYS) | 0) + wayOf(slot)] !== 0
  }

  kind(slot: number): number {
    return this.#words[recordWord(slot)]! & KIND_BITS
  }

  /** The tag's low word: half of it is in the mark. */
  low(slot: number): number {
    const word = this.#words[recordWord(slot)]!
    const mark = (word & NO_UPPER_BITS) !== 0 ? 0 : this.#marks[firstMark((slot / WAYS) | 0) + wayOf(slot)]!
    return (mark << 16) | (word >>> 16)
  }

  high(slot: number): number {
    return this.#words[recordWord(slot) + 1]!
  }

  level(slot: number): number {
    return this.#doubles[recordWord(slot) / 2 + 1]!
  }

  at(slot: number): number {
    return this.#doubles[recordWord(slot) / 2 + 2]!
  }

  size(slot: number): number {
    return this.#floats[recordWord(slot) + 6]!
  }

  rate(slot: number): number {
    return this.#floats[recordWord(slot) + 7]!
  }

  read(slot: number, into: CounterRecord): void {
    const record = recordWord(slot)
    into.kind = this.#words[record]! & KIND_BITS
    into.level = this.#doubles[record / 2 + 1]!
    into.at = this.#doubles[record / 2 + 2]!
    into.size = this.#floats[record + 6]!
    into.rate = this.#floats[record + 7]!
  }

  spentShare(slot: number, nowMs: number, wallMs: number): number {
    this.read(slot, this.#scratch)
    return spentShare(this.#scratch, nowMs, wallMs)
  }

  /** The kind stays the one that the slot was claimed for. */
  write(slot: number, level: number, at: number, size: number, rate: number): void {
    const record = recordWord(slot)
    const writing = laneWord(this.#owner) + LANE_WRITING
    this.#words[writing] = slot + 1
    this.#doubles[record / 2 + 1] = level
    this.#doubles[record / 2 + 2] = at
    this.#floats[record + 6] = size
    this.#floats[record + 7] = rate
    this.#words[writing] = 0
  }

  /**
   * Finds room for a new key: an empty slot, else the one with the smallest share spent, so that a flood of new keys
   * evicts itself. `inUse` has a bit for each slot of the set that may not be evicted. Returns -1 where all are in use, or
   * where none has less spent than the new key's own `share`; a record with a share of 0 always goes, and is no forced
   * eviction. The caller writes the record before anything else.
   */
  claim(
    set: number,
    low: number,
    high: number,
    kind: number,
    nowMs: number,
    wallMs: number,
    inUse: number,
    share = Number.POSITIVE_INFINITY,
  ): number {
    const first = firstMark(set)
    // First the marks alone: the records are many more cache lines.
    for (let way = 0; way < WAYS; way++) {
      if (this.#marks[first + way] !== 0) continue
      this.#add(LANE_OCCUPIED, 1)
      return this.#assign(set, way, low, high, kind)
    }
    let victim = -1
    let smallest = Number.POSITIVE_INFINITY
    for (let way = 0; way < WAYS; way++) {
      if (((inUse >>> way) & 1) !== 0) continue
      const spent = this.spentShare(set * WAYS + way, nowMs, wallMs)
      if (spent < smallest) {
        smallest = spent
        victim = way
      }
    }
    if (victim < 0 || (smallest > 0 && smallest >= share)) return -1
    if (smallest > 0) this.countEviction()
    return this.#assign(set, victim, low, high, kind)
  }

  /** Empties the slot. */
  forget(slot: number): void {
    this.#marks[firstMark((slot / WAYS) | 0) + wayOf(slot)] = 0
    this.#add(LANE_OCCUPIED, -1)
  }

  /** A live counter was evicted, or found no room. */
  countEviction(): void {
    this.#add(LANE_EVICTIONS, 1)
  }

  /** Frees the locks of a dead thread, and forgets the record that it was writing. */
  freeLocksOf(owner: number): number {
    const words = this.#words
    const writing = laneWord(owner) + LANE_WRITING
    let freed = 0
    for (let set = 0; set < this.setCount; set++) {
      if (ownerOf(words, setWord(set)) !== owner) continue
      const slot = words[writing]! - 1
      if (slot >= 0 && Math.floor(slot / WAYS) === set) this.forget(slot)
      release(words, setWord(set))
      freed++
    }
    words[writing] = 0
    return freed
  }

  #assign(set: number, way: number, low: number, high: number, kind: number): number {
    const slot = set * WAYS + way
    const record = recordWord(slot)
    // Until the record is written, the slot has its new tag and an old counter: if this thread dies, it must be forgotten.
    this.#words[laneWord(this.#owner) + LANE_WRITING] = slot + 1
    this.#marks[firstMark(set) + way] = markOf(low)
    this.#words[record] = tagWord(low) | kind
    this.#words[record + 1] = high
    return slot
  }

  #add(lane: number, amount: number): void {
    this.#doubles[(laneWord(this.#owner) >>> 1) + lane]! += amount
  }

  #sumLanes(lane: number): number {
    let sum = 0
    for (let owner = 1; owner < MAX_OWNERS; owner++) sum += this.#doubles[(laneWord(owner) >>> 1) + lane]!
    return sum
  }
}
