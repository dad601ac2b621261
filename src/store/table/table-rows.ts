import { type CounterRecord, newRecord } from '../../limiter/limit.ts'
import type { Charges } from '../charges.ts'
import { type CounterLocator, tagWords } from '../counter-locator.ts'
import { HalfSipHash, SubjectWords } from '../subject.ts'
import type { EmbeddedCounter, SubjectLookup } from './embedded-counter.ts'
import type { SharedTable } from './shared-table.ts'
import { wayOf } from './table-layout.ts'

// Up to this many rows, insertion sort beats a sort with a comparator.
const FEW_ROWS = 16
/**
 * The texts at the start of an identity that name its policy and its rule. A rule with a limit per minute and one per day has one share of
 * the table, not two.
 */
const RULE_TEXTS = 2

/** Where a table has a counter's record: its set, and the words of its tag. */
export interface CounterPlace {
  readonly set: number
  readonly low: number
  readonly high: number
}

/**
 * Finds the rows of one question in the table and locks all of them. It holds the charges that were located last, so concurrent users need
 * one object each.
 */
export class TableRows {
  readonly table: SharedTable
  /** Number of rows in use. Entries beyond it are left over from earlier charges. */
  length = 0
  lows = new Int32Array(0)
  highs = new Int32Array(0)
  sets = new Int32Array(0)
  rules = new Int32Array(0)
  /** Set by the code that reads the rows: the slot, or -1, and the record to be written there. */
  slots = new Int32Array(0)
  readonly records: CounterRecord[] = []
  /** For counters with slices: the holds in all slices but the one in `records`. */
  elsewhere = new Float64Array(0)
  /** Rows by ascending set. Locks are always taken in this order, so that threads cannot deadlock. */
  order = new Int32Array(0)
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()

  constructor(table: SharedTable, hashKey: readonly [number, number]) {
    this.table = table
    this.#hash = new HalfSipHash(hashKey)
  }

  lookupOf(identity: readonly string[]): SubjectLookup {
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(identity.slice(0, RULE_TEXTS))
    this.#hash.digest(subject.words, subject.length)
    const rule = this.table.ruleNumber(this.#hash.low)
    subject.clear()
    subject.addIdentity(identity)
    return { prefix: this.#hash.absorb(subject.words, subject.length), rule }
  }

  locate(charges: Charges, wallMs: number): void {
    const { length } = charges
    this.length = length
    if (length > this.lows.length) this.#growTo(length)
    if (charges.locators !== undefined) return this.#locateTags(charges, charges.locators)
    const hash = this.#hash
    const subject = this.#subject
    for (let row = 0; row < length; row++) {
      const counter = charges.counters[row] as EmbeddedCounter
      subject.clear()
      for (let i = charges.valuesFrom[row]!; i < charges.valuesFrom[row + 1]!; i++) subject.addText(charges.values[i]!)
      if (counter.algorithm.hasWindows) subject.addWord(counter.algorithm.windowAt(counter.limit, wallMs))
      hash.digest(subject.words, subject.length, counter.prefix)
      this.lows[row] = hash.low
      this.highs[row] = hash.high
      this.sets[row] = this.table.setOf(hash.high)
      this.rules[row] = counter.rule
      this.order[row] = row
    }
    if (length > 1) this.#sortBySet(length)
  }

  /** As `locate`, for a single row whose place is known. */
  locateAt({ set, low, high }: CounterPlace, rule: number): void {
    this.length = 1
    if (this.lows.length === 0) this.#growTo(1)
    this.lows[0] = low
    this.highs[0] = high
    this.sets[0] = set
    this.rules[0] = rule
    this.order[0] = 0
  }

  lock(): void {
    let locked = -1
    for (let i = 0; i < this.length; i++) {
      const set = this.sets[this.order[i]!]!
      if (set !== locked) this.table.lock(set)
      locked = set
    }
  }

  unlock(): void {
    let unlocked = -1
    for (let i = 0; i < this.length; i++) {
      const set = this.sets[this.order[i]!]!
      if (set !== unlocked) this.table.unlock(set)
      unlocked = set
    }
  }

  /**
   * Returns a bit for each slot that these rows use in the set of the row at position `rank` of the order: they must not evict one
   * another.
   */
  slotsInUse(rank: number): number {
    const { sets, order, slots } = this
    const set = sets[order[rank]!]!
    let bits = 0
    let first = rank
    while (first > 0 && sets[order[first - 1]!] === set) first--
    for (let i = first; i < this.length && sets[order[i]!] === set; i++) {
      const slot = slots[order[i]!]!
      if (slot >= 0) bits |= 1 << wayOf(slot)
    }
    return bits
  }

  #locateTags(charges: Charges, locators: readonly CounterLocator[]): void {
    for (const [row, { tag }] of locators.entries()) {
      const [low, high] = tagWords(tag)
      this.lows[row] = low
      this.highs[row] = high
      this.sets[row] = this.table.setOf(high)
      this.rules[row] = (charges.counters[row] as EmbeddedCounter).rule
      this.order[row] = row
    }
    if (locators.length > 1) this.#sortBySet(locators.length)
  }

  #sortBySet(count: number): void {
    const { order, sets } = this
    if (count > FEW_ROWS) {
      order.subarray(0, count).sort((a, b) => sets[a]! - sets[b]!)
      return
    }
    for (let i = 1; i < count; i++) {
      const row = order[i]!
      let rank = i
      for (; rank > 0 && sets[order[rank - 1]!]! > sets[row]!; rank--) order[rank] = order[rank - 1]!
      order[rank] = row
    }
  }

  #growTo(rows: number): void {
    const size = Math.max(16, rows * 2)
    this.lows = new Int32Array(size)
    this.highs = new Int32Array(size)
    this.sets = new Int32Array(size)
    this.rules = new Int32Array(size)
    this.slots = new Int32Array(size)
    this.elsewhere = new Float64Array(size)
    this.order = new Int32Array(size)
    while (this.records.length < size) this.records.push(newRecord())
  }
}
