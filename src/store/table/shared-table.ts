import { type CounterRecord, newRecord } from '../../limiter/limit.ts'
import { acquire, ownerOf, release, tryAcquire } from '../../memory/shared-lock.ts'
import {
  firstMark,
  kindBits,
  kindIn,
  LANE_CHANGES,
  LANE_EVICTIONS,
  LANE_OCCUPIED,
  LANE_WRITING,
  LAST_RESET,
  laneWord,
  MAX_OWNERS,
  MAX_RULES,
  MIN_TABLE_BYTES,
  markOf,
  NO_UPPER_BITS,
  RULE_BITS,
  recordWord,
  ruleBits,
  ruleIn,
  ruleWord,
  setCountIn,
  setWord,
  TAG_BITS,
  tagWord,
  WAYS,
  wayOf,
  worthMs,
} from './table-layout.ts'

/** How many numbers are tried for a rule before it shares one. */
const MAX_PROBES = 32

/**
 * The memory that all threads share: a set-associative table of counters in one SharedArrayBuffer.
 *
 * A key's hash names one set, and the key is in one of that set's slots or nowhere. A lookup reads the set's marks and never stops at a
 * hole, so slots are reused without tombstones, and one lock covers everything that a key can touch. The size is fixed at startup, and
 * there is no object per key.
 *
 *     set    lock, spare | 32 × mark (16 bits of the tag; 0 = empty) | 32 × record
 *     record kind (4 bits), rule (11), the tag's other 49 bits | level (f64) | at (f64) | size (f32) | rate (f32)
 *
 * A lookup scans the marks, which are two cache lines, and then nearly always reads only the record that it wants. The meaning of a
 * record's numbers depends on its kind (`limiter/algorithms/`, `table-layout.ts`).
 */
export class SharedTable {
  readonly setCount: number
  readonly #owner: number
  readonly #marks: Uint16Array
  readonly #words: Int32Array
  readonly #floats: Float32Array
  readonly #doubles: Float64Array
  readonly #scratch = newRecord()
  readonly #room = new SetRoom()

  /** Each thread has a table object of its own for the buffer, with its own owner number (1 to 255). */
  constructor(buffer: SharedArrayBuffer, owner: number) {
    this.setCount = setCountIn(buffer.byteLength)
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

  /** Slots that hold a key, including those whose counter is full again. */
  get occupiedSlots(): number {
    return this.#sumLanes(LANE_OCCUPIED)
  }

  /** The latest moment of any reset in the table. */
  get lastResetMs(): number {
    return this.#doubles[LAST_RESET]!
  }

  /** No lock covers all sets, so of two concurrent resets the earlier moment may remain here. */
  set lastResetMs(momentMs: number) {
    this.#doubles[LAST_RESET] = momentMs
  }

  /** A number that is another one after each change of a record, by whichever thread. */
  get changes(): number {
    let sum = 0
    for (let owner = 1; owner < MAX_OWNERS; owner++) sum = (sum + this.#words[laneWord(owner) + LANE_CHANGES]!) | 0
    return sum
  }

  get forcedEvictions(): number {
    return this.#sumLanes(LANE_EVICTIONS)
  }

  /**
   * Returns a rule's number for a hash of its identity. It is the same in all threads for the lifetime of the table. If no number nearby is
   * free, because the bundles so far had more than a thousand or so rules, rules share numbers.
   */
  ruleNumber(hash: number): number {
    const home = (hash >>> 0) % MAX_RULES
    const taken = hash | 0 || 1
    for (let i = 0; i < MAX_PROBES; i++) {
      const rule = 1 + ((home + i) % MAX_RULES)
      const found = Atomics.compareExchange(this.#words, ruleWord(rule), 0, taken)
      if (found === 0 || found === taken) return rule
    }
    return 1 + home
  }

  setOf(high: number): number {
    return Math.floor((high >>> 0) * (this.setCount / 0x1_0000_0000))
  }

  lock(set: number): void {
    acquire(this.#words, setWord(set), this.#owner)
  }

  /** Spins briefly instead of waiting. Returns whether the lock was acquired. */
  tryLock(set: number): boolean {
    return tryAcquire(this.#words, setWord(set), this.#owner)
  }

  unlock(set: number): void {
    release(this.#words, setWord(set))
  }

  /** Returns whether no slot holds a key. It reads without the lock, because locking would touch memory that was never used. */
  isEmpty(set: number): boolean {
    const first = firstMark(set) / 2 // two marks per word
    for (let word = 0; word < WAYS / 2; word++) if (this.#words[first + word] !== 0) return false
    return true
  }

  /** Returns the slot that holds the key, or -1. The caller holds the set's lock, as for all methods below except `freeLocksOf`. */
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
    return kindIn(this.#words[recordWord(slot)]!)
  }

  rule(slot: number): number {
    return ruleIn(this.#words[recordWord(slot)]!)
  }

  /** Notes the rule of a record that was restored, and so has none yet: only its tag says to which rule it belongs. */
  adopt(slot: number, rule: number): void {
    const record = recordWord(slot)
    if ((this.#words[record]! & RULE_BITS) === 0) this.#words[record]! |= ruleBits(rule)
  }

  /** Returns the tag's low word, whose upper half is in the mark. */
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
    into.kind = kindIn(this.#words[record]!)
    into.level = this.#doubles[record / 2 + 1]!
    into.at = this.#doubles[record / 2 + 2]!
    into.size = this.#floats[record + 6]!
    into.rate = this.#floats[record + 7]!
  }

  worthMs(slot: number, nowMs: number, wallMs: number): number {
    this.read(slot, this.#scratch)
    return worthMs(this.#scratch, nowMs, wallMs)
  }

  /** Writes the numbers of a record; its kind stays the one that the slot was claimed for. */
  write(slot: number, level: number, at: number, size: number, rate: number): void {
    const record = recordWord(slot)
    const writing = laneWord(this.#owner) + LANE_WRITING
    this.#words[writing] = slot + 1
    this.#doubles[record / 2 + 1] = level
    this.#doubles[record / 2 + 2] = at
    this.#floats[record + 6] = size
    this.#floats[record + 7] = rate
    this.#words[writing] = 0
    this.#noteChange()
  }

  /** Takes from a record's level and leaves the rest of it as it is. If this thread dies meanwhile, the record is whole before and after. */
  takeFrom(slot: number, amount: number): void {
    this.#doubles[recordWord(slot) / 2 + 1]! -= amount
    this.#noteChange()
  }

  /** Claims an empty slot for a new key, or returns -1. The caller writes the record before anything else. */
  claimEmpty(set: number, low: number, high: number, kind: number, rule: number): number {
    const first = firstMark(set)
    // Only the marks are read: the records span many more cache lines.
    for (let way = 0; way < WAYS; way++) {
      if (this.#marks[first + way] !== 0) continue
      this.#add(LANE_OCCUPIED, 1)
      return this.#assign(set, way, low, high, kind, rule)
    }
    return -1
  }

  /**
   * Claims a slot for a new key: an empty one, else one whose record means nothing any more, else one that `SetRoom` chooses by the rule
   * and by what the new record is worth. `inUse` has a bit for each slot of the set that may not be evicted. Returns -1 if there is no
   * room: then the new key is the victim, which counts as a forced eviction too. A record that is worth 0 never evicts another and is not
   * counted. The caller writes the record before anything else.
   */
  claim(
    set: number,
    low: number,
    high: number,
    kind: number,
    nowMs: number,
    wallMs: number,
    inUse: number,
    worth = Number.POSITIVE_INFINITY,
    rule = NO_RULE,
  ): number {
    const empty = this.claimEmpty(set, low, high, kind, rule)
    if (empty >= 0) return empty
    const room = this.#room
    for (let way = 0; way < WAYS; way++) {
      const slot = set * WAYS + way
      room.rules[way] = this.rule(slot)
      room.worthsMs[way] = this.worthMs(slot, nowMs, wallMs)
      if (room.worthsMs[way] === 0 && ((inUse >>> way) & 1) === 0) return this.#assign(set, way, low, high, kind, rule)
    }
    if (worth > 0) this.#add(LANE_EVICTIONS, 1)
    const victim = room.victimFor(rule, worth, inUse)
    return victim < 0 ? -1 : this.#assign(set, victim, low, high, kind, rule)
  }

  /** Empties the slot. */
  forget(slot: number): void {
    this.#marks[firstMark((slot / WAYS) | 0) + wayOf(slot)] = 0
    this.#add(LANE_OCCUPIED, -1)
    this.#noteChange()
  }

  /** Frees the locks of a dead thread, and forgets the record that it was writing. Returns how many locks were freed. */
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

  #assign(set: number, way: number, low: number, high: number, kind: number, rule: number): number {
    const slot = set * WAYS + way
    const record = recordWord(slot)
    // Until the record is written, the slot has a new tag and an old counter: if this thread dies meanwhile, the slot must be forgotten.
    this.#words[laneWord(this.#owner) + LANE_WRITING] = slot + 1
    this.#marks[firstMark(set) + way] = markOf(low)
    this.#words[record] = tagWord(low) | ruleBits(rule) | kindBits(kind)
    this.#words[record + 1] = high
    return slot
  }

  #noteChange(): void {
    const changes = laneWord(this.#owner) + LANE_CHANGES
    this.#words[changes] = this.#words[changes]! + 1
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

/** Rule number of the store's own records, and of restored records that no rule has asked for since. */
const NO_RULE = 0
/** A rule that has more than half of a set gives up records for one that has fewer than this, whatever they are worth. */
const LEAST_ROOM = 4

/**
 * Chooses whose slot a new record gets in a set that is full of live records. Whoever can make up keys decides how many records a rule has,
 * so a rule that has its share of the set or more evicts only its own records. The share is the number of slots divided by the number of
 * rules in the set. A rule that has less takes from those that exceed theirs: it evicts the record that would expire soonest, if the new
 * one lasts longer. Otherwise the new record replaces the least valuable one of its own rule, or gets no slot if there is none.
 *
 * A rule within its share thus loses nothing to the keys of others. And a flood that fills most of a set leaves room for the others,
 * however long its records last: otherwise, whoever can make up the keys of one rule could switch the others off.
 */
class SetRoom {
  /** Both arrays are indexed by way, and the caller fills them in. */
  readonly worthsMs = new Float64Array(WAYS)
  readonly rules = new Int32Array(WAYS)
  /** For each way, the first way with a record of the same rule; `#counts` has the number of such records at that first way. */
  readonly #firsts = new Int32Array(WAYS)
  readonly #counts = new Int32Array(WAYS)

  /**
   * Returns the way whose record is evicted for a new one, or -1. `inUse` has a bit for each way that must stay. A record that is worth
   * nothing evicts nothing.
   */
  victimFor(rule: number, worthMs: number, inUse: number): number {
    if (worthMs === 0) return -1
    let ruleCount = this.#countRules()
    let own = 0
    if (rule !== NO_RULE) for (let way = 0; way < WAYS; way++) if (this.rules[way] === rule) own++
    if (own === 0) ruleCount++
    let ownLeast = -1
    let otherLeast = -1
    let floodLeast = -1
    for (let way = 0; way < WAYS; way++) {
      if (((inUse >>> way) & 1) !== 0) continue
      const count = this.#countAt(way)
      if (own > 0 && this.rules[way] === rule) ownLeast = this.#lesser(ownLeast, way)
      else if (count * ruleCount > WAYS) otherLeast = this.#lesser(otherLeast, way)
      if (count > WAYS / 2) floodLeast = this.#lesser(floodLeast, way)
    }
    if (own * ruleCount >= WAYS || otherLeast < 0) return ownLeast
    if (this.worthsMs[otherLeast]! < worthMs) return otherLeast
    const isCrowdedOut = floodLeast >= 0 && own < LEAST_ROOM && rule !== NO_RULE
    return isCrowdedOut ? floodLeast : ownLeast
  }

  /** Counts the records of each rule in the set. Returns the number of rules. */
  #countRules(): number {
    const { rules } = this
    let count = 0
    for (let way = 0; way < WAYS; way++) {
      let first = 0
      while (rules[first] !== rules[way]) first++
      this.#firsts[way] = first
      if (first === way) {
        this.#counts[way] = 0
        count++
      }
      this.#counts[first]!++
    }
    return count
  }

  /** Returns how many records in the set belong to the same rule as the one at `way`. */
  #countAt(way: number): number {
    return this.#counts[this.#firsts[way]!]!
  }

  #lesser(least: number, way: number): number {
    return least < 0 || this.worthsMs[way]! < this.worthsMs[least]! ? way : least
  }
}
