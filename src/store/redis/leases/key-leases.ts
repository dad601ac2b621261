import { type CounterRecord, newRecord } from '../../../limiter/limit.ts'
import type { SharedTable } from '../../table/shared-table.ts'
import { LEASE_BLOCK, LEASE_NOTE, LEASE_USE, WAYS, wayOf } from '../../table/table-layout.ts'

const LEASE_KINDS: ReadonlySet<number> = new Set([LEASE_BLOCK, LEASE_NOTE, LEASE_USE])

type Note = 'none' | 'asked' | 'refused'

// Two bits of a record's tag say what it holds; `USE`, below, is the fourth value. The other bits are those of the key's own counter, changed
// by the counter's salt. The two are in the half of which the table keeps marks: a lookup reads the record that it wants, and no others of the key.
const RECORD_BITS = 3 << 16
const BLOCK_A = 1 << 16
const BLOCK_B = 2 << 16
const NOTE = 3 << 16

// The states of a note, which are stored as its rate.
const ASKED = 1
const REFUSED = 2
const ASKED_AFTER_REFUSAL = 3

/**
 * The leases of one key, in the table that all threads share. They are in the set of the key's own counter, so that one lock, which the
 * caller holds, covers them all.
 *
 *     block  level: tokens left | at: when they expire | size: tokens leased | rate: what the fleet had left
 *     note   level: 0 | at: until when it holds | size: how much later `namedUntilMs` is | rate: ASKED …
 *     use    level: tokens obtained since `at`, leased or one by one | at | size: those of the lease life before
 *
 * There are two blocks, because the next one is fetched before the last is used up, and they expire at different times. Notes and use can
 * be lost at any time: that costs round trips, but no token.
 */
export class KeyLeases {
  /** Slot from which the next token is taken, or -1. */
  from = -1
  /** Tokens in both blocks. */
  left = 0
  /** Tokens that the fleet had left by the last reply. */
  seen = 0
  /** Tokens used in the last `elapsedMs`; 0 if the key was idle. */
  used = 0
  elapsedMs = 0
  /** From the note that was read last: when there will be a token, by the reply of Redis, or when the next request for a lease is due. */
  namedUntilMs = 0
  /** Unused tokens of the expired block that the last `add` replaced. */
  overwritten = 0
  readonly #table: SharedTable
  readonly #leaseMs: number
  readonly #wallMs: () => number
  #set = 0
  #tag = 0
  #high = 0
  #rule = 0
  /** Slots of the blocks, or -1. The newer block is the one that ends last. */
  #newer = -1
  #older = -1
  #olderBlock = BLOCK_A
  #newerSize = 0
  readonly #blockA = newRecord()
  readonly #blockB = newRecord()

  /** The wall clock is read only for evictions, so that windows that have ended are evicted first. */
  constructor(table: SharedTable, leaseMs: number, wallMs: () => number) {
    this.#table = table
    this.#leaseMs = leaseMs
    this.#wallMs = wallMs
  }

  /** Selects the key by the set and tag of its own counter, and by the counter's salt and rule. */
  locate(set: number, low: number, high: number, salt: number, rule: number): void {
    this.#set = set
    this.#rule = rule
    this.#tag = (low ^ salt) & ~RECORD_BITS
    // The tag must not be that of the key's own record.
    if (this.#tag === (low & ~RECORD_BITS)) this.#tag ^= 1
    this.#high = high
    this.from = this.#newer = this.#older = -1
  }

  read(nowMs: number): void {
    const a = this.#readBlock(BLOCK_A, this.#blockA, nowMs)
    const b = this.#readBlock(BLOCK_B, this.#blockB, nowMs)
    const isAOlder = a < 0 || (b >= 0 && this.#blockA.at < this.#blockB.at)
    this.#older = isAOlder ? a : b
    this.#newer = isAOlder ? b : a
    this.#olderBlock = isAOlder ? BLOCK_A : BLOCK_B
    const { level: olderLeft } = isAOlder ? this.#blockA : this.#blockB
    const { level: newerLeft, size, rate } = isAOlder ? this.#blockB : this.#blockA
    this.left = olderLeft + newerLeft
    this.from = olderLeft >= 1 ? this.#older : newerLeft >= 1 ? this.#newer : -1
    this.seen = rate
    this.#newerSize = size
  }

  /** Whether at most as many tokens are left as a quarter of the newer block had: a cheap test before `measure`. */
  get isLow(): boolean {
    return this.left * 4 <= this.#newerSize
  }

  /** Reads the recent use into `used` and `elapsedMs`. */
  measure(nowMs: number): void {
    const table = this.#table
    const slot = this.#find(USE)
    this.used = 0
    this.elapsedMs = 0
    if (slot < 0) return
    const obtained = table.level(slot)
    const obtainedBefore = table.size(slot)
    const lives = (nowMs - table.at(slot)) / this.#leaseMs
    this.elapsedMs = this.#leaseMs
    if (lives >= 2) return
    if (lives >= 1) this.used = obtained * (2 - lives)
    // Tokens obtained in the last lease life approximate those used: about as many were left at its start as are left now.
    else if (obtainedBefore > 0) this.used = obtained + obtainedBefore * (1 - lives)
    else {
      this.used = Math.max(0, obtained - this.left)
      this.elapsedMs = lives * this.#leaseMs
    }
  }

  /**
   * Adds tokens that were obtained: `cost` is used already, `leased` expires at `endMs`, and the fleet has `seen` left. Returns the slot of
   * the block that holds the lease, or -1 if nothing is kept.
   */
  add(cost: number, leased: number, seen: number, endMs: number, nowMs: number): number {
    const table = this.#table
    const rate = Math.max(0, seen)
    this.overwritten = 0
    this.#countUse(cost + leased, nowMs)
    this.read(nowMs)
    const newer = this.#newer
    if (leased === 0) {
      if (newer >= 0) table.write(newer, table.level(newer), table.at(newer), table.size(newer), rate)
      return -1
    }
    const slot = endMs > nowMs ? this.#slotForBlock(nowMs) : -1
    if (slot < 0) return -1
    this.overwritten = slot === this.#older || slot === newer ? table.level(slot) : 0
    table.write(slot, leased, endMs, leased, rate)
    this.left += leased
    return slot
  }

  readNote(nowMs: number): Note {
    const table = this.#table
    const slot = this.#find(NOTE)
    if (slot < 0 || table.at(slot) <= nowMs) return 'none'
    this.namedUntilMs = table.at(slot) + table.size(slot)
    return table.rate(slot) === REFUSED ? 'refused' : 'asked'
  }

  /** Notes that a lease was asked for: until `untilMs`, no other thread asks. Returns false if there is no room for the note. */
  noteAsked(untilMs: number, nowMs: number): boolean {
    return this.#writeNote(untilMs, 0, this.#wasRefused(nowMs) ? ASKED_AFTER_REFUSAL : ASKED, nowMs)
  }

  /** Whether a lease was asked for within a lease life after a refusal, which means that there are few tokens. */
  get isScarce(): boolean {
    const slot = this.#find(NOTE)
    return slot >= 0 && this.#table.rate(slot) === ASKED_AFTER_REFUSAL
  }

  noteRefused(untilMs: number, namedUntilMs: number, nowMs: number): void {
    this.#writeNote(untilMs, Math.max(0, namedUntilMs - untilMs), REFUSED, nowMs)
  }

  forgetNote(): void {
    const slot = this.#find(NOTE)
    if (slot >= 0) this.#table.write(slot, 0, 0, 0, ASKED)
  }

  /**
   * Removes all leases and notes of the key, even those under other limits, which would be found again when an override has ended. Returns
   * the unused tokens. The tag's high word is enough to recognise the key: hardly any two keys in one set share it.
   */
  forget(): number {
    const table = this.#table
    let unused = 0
    for (let slot = this.#set * WAYS; slot < (this.#set + 1) * WAYS; slot++) {
      const kind = table.kind(slot)
      if (!table.isOccupied(slot) || table.high(slot) !== this.#high || !LEASE_KINDS.has(kind)) continue
      if (kind === LEASE_BLOCK) unused += table.level(slot)
      table.forget(slot)
    }
    return unused
  }

  #wasRefused(nowMs: number): boolean {
    const slot = this.#find(NOTE)
    return slot >= 0 && this.#table.rate(slot) >= REFUSED && nowMs - this.#table.at(slot) < this.#leaseMs
  }

  #writeNote(untilMs: number, size: number, rate: number, nowMs: number): boolean {
    const known = this.#find(NOTE)
    const slot = known >= 0 ? known : this.#claim(NOTE, LEASE_NOTE, nowMs)
    if (slot < 0) return false
    this.#table.write(slot, 0, untilMs, size, rate)
    return true
  }

  #countUse(tokens: number, nowMs: number): void {
    const table = this.#table
    const known = this.#find(USE)
    const slot = known >= 0 ? known : this.#claim(USE, LEASE_USE, nowMs)
    if (slot < 0) return
    const lives = known >= 0 ? Math.floor((nowMs - table.at(slot)) / this.#leaseMs) : 2
    if (lives < 1) table.write(slot, table.level(slot) + tokens, table.at(slot), table.size(slot), 0)
    else if (lives === 1) table.write(slot, tokens, table.at(slot) + this.#leaseMs, table.level(slot), 0)
    else table.write(slot, tokens, nowMs, 0, 0)
  }

  /** Returns the slot of a block that is unused, used up or expired, or -1. */
  #slotForBlock(nowMs: number): number {
    const older = this.#older
    const newer = this.#newer
    if (older < 0) return this.#claim(this.#olderBlock, LEASE_BLOCK, nowMs, newer < 0 ? 0 : 1 << wayOf(newer))
    if (this.#leftIn(older, nowMs) < 1) return older
    return this.#leftIn(newer, nowMs) < 1 ? newer : -1
  }

  /** Claims only a free slot: no counter is evicted for a lease, which merely saves round trips. */
  #claim(record: number, kind: number, nowMs: number, inUse = 0): number {
    return this.#table.claim(this.#set, this.#tag | record, this.#high, kind, nowMs, this.#wallMs(), inUse, 0, this.#rule)
  }

  #find(record: number): number {
    return this.#table.find(this.#set, this.#tag | record, this.#high)
  }

  /** Reads a block, as an empty one if it has expired. Returns its slot, or -1. */
  #readBlock(block: number, into: CounterRecord, nowMs: number): number {
    const slot = this.#find(block)
    if (slot < 0) into.level = into.size = into.rate = 0
    else this.#table.read(slot, into)
    if (into.at <= nowMs) into.level = 0
    return slot
  }

  #leftIn(slot: number, nowMs: number): number {
    return slot >= 0 && this.#table.at(slot) > nowMs ? this.#table.level(slot) : 0
  }
}

/** These two bits in the tag of a use record. Blocks and notes have others there. */
const USE = 0

/** Stored as a block's end once the lease has ended; it is before all times. */
const ENDED = 0

/** Identifies a block of leased tokens by its set, its tag, and its end, which no other block of the key shares. */
export interface BlockLocator {
  readonly set: number
  readonly blockLow: number
  readonly high: number
  readonly endMs: number
}

/** Puts a token back into its block. The caller holds the set's lock. Returns false if the block has ended or was evicted. */
export function putTokenBack(table: SharedTable, { set, blockLow, high, endMs }: BlockLocator, nowMs: number): boolean {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs || nowMs >= endMs) return false
  table.write(slot, table.level(slot) + 1, endMs, table.size(slot), table.rate(slot))
  return true
}

/**
 * Empties a block and returns the tokens that were left, which do not count as used. The caller holds the set's lock. With `isEnd`, no
 * token can be put back afterwards, not even by a thread that read the clock before the end.
 */
export function takeOut(table: SharedTable, { set, blockLow, high, endMs }: BlockLocator, isEnd: boolean): number {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs) return 0
  const left = table.level(slot)
  table.write(slot, 0, isEnd ? ENDED : endMs, table.size(slot), table.rate(slot))
  const use = table.find(set, (blockLow & ~RECORD_BITS) | USE, high)
  if (use >= 0) table.write(use, Math.max(0, table.level(use) - left), table.at(use), table.size(use), 0)
  return left
}
