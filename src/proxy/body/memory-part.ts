import { acquire, ownerOf, release } from '../../memory/shared-lock.ts'

/** Claims are counted in whole KiB, so that a 32-bit word can count two TiB. */
const UNIT_BYTES = 1024
/** Words in a cache line. The first line has the lock. */
const LINE_WORDS = 16
const LOCK = 0
const HELD = 0
const WANTED = 1
/** Bytes that the worker's slowest upload brought lately, plus 1; 0 if it has no upload that may be ended. */
const SLOWEST = 2
/** What the bodies of requests hold that wait for a rule. */
const WAITING = 3
const MAX_WORD = 2 ** 31 - 1
/**
 * Two rows of cells count what holders have, and two more what they wait for (a count-min sketch). A holder's keyed hash selects its cell in each
 * row, and the smaller of the two sums is at least what the holder has, so a share is never exceeded. Two holders may have one cell in common, but
 * hardly ever both. At most four cells of a row can be full at a time, because a share is at least a quarter of the part.
 */
const CELL_BITS = 10
const ROW_WORDS = 2 ** CELL_BITS
const HELD_CELLS = LINE_WORDS
const WANTED_CELLS = HELD_CELLS + 2 * ROW_WORDS
/** Each worker has a lane of its own, so that the claims of a dead worker can be identified and freed. */
const LANE_WORDS = WANTED_CELLS + 2 * ROW_WORDS

/** A caller or an address whose bodies are counted together. */
export interface MemoryHolder {
  /** Its cells in the two rows, with `CELL_BITS` bits for each. */
  readonly cells: number
  /** How many shares of a part it may hold. */
  readonly shares: number
}

/** A body is counted for each of these holders. */
export type MemoryHolders = readonly MemoryHolder[]

/** Whether a claim was changed or, if not, whether a holder's share or the whole part has too little left. */
export type Resized = 'done' | 'over_share' | 'no_room'

/** A part of the memory for bodies, with a bound for what the bodies of all workers hold together and one for each holder. */
export class MemoryPart {
  readonly #words: Int32Array
  readonly #capacity: number
  readonly #share: number
  readonly #owner: number
  readonly #own: number

  /** Workers are numbered from 1. */
  constructor(words: Int32Array, worker: number, capacityBytes: number, shareBytes: number) {
    this.#words = words
    this.#capacity = unitsOf(capacityBytes)
    this.#share = unitsOf(shareBytes)
    this.#owner = worker + 1
    this.#own = laneOf(worker)
  }

  /** Number of bytes that this worker holds. */
  get ownBytes(): number {
    return Atomics.load(this.#words, this.#own + HELD) * UNIT_BYTES
  }

  /** Changes what a body holds, or nothing if there is no room for more. */
  resize(holders: MemoryHolders, fromBytes: number, toBytes: number): Resized {
    const words = this.#words
    const change = unitsOf(toBytes) - unitsOf(fromBytes)
    if (change <= 0) {
      this.#add(holders, change)
      return 'done'
    }
    acquire(words, LOCK, this.#owner)
    const hasRoom = this.#sum(HELD) + change <= this.#capacity
    const isDone = hasRoom && this.#fitsShares(holders, change)
    if (isDone) this.#add(holders, change)
    release(words, LOCK)
    return isDone ? 'done' : hasRoom ? 'over_share' : 'no_room'
  }

  /** Whether the holder's share has room for this many more bytes, besides what the holder waits for in the workers before this one. */
  hasShare({ cells, shares }: MemoryHolder, bytes: number): boolean {
    return this.#inCells(cells, this.#own) + unitsOf(bytes) <= shares * this.#share
  }

  /** Announces to the other workers that an upload of these holders waits for this many bytes; a negative number takes that back. */
  wait(holders: MemoryHolders, bytes: number): void {
    for (const { cells } of holders) this.#addToCells(cells, WANTED_CELLS, Math.sign(bytes) * unitsOf(Math.abs(bytes)))
  }

  /** Whether the uploads of any of these holders wait for more than its share has left. */
  isShareShort(holders: MemoryHolders): boolean {
    return holders.some(({ cells, shares }) => this.#inCells(cells, this.#words.length) > shares * this.#share)
  }

  /** Announces to the other workers how much the uploads of this one wait for, as far as their holders' shares allow. */
  want(bytes: number): void {
    Atomics.store(this.#words, this.#own + WANTED, Math.min(unitsOf(bytes), MAX_WORD))
  }

  /** Notes that a request with this body begins to wait, unless the bodies of all that wait would then exceed `maxBytes`. */
  beginWait(bytes: number, maxBytes: number): boolean {
    Atomics.add(this.#words, this.#own + WAITING, unitsOf(bytes))
    if (this.#sum(WAITING) <= unitsOf(maxBytes)) return true
    this.endWait(bytes)
    return false
  }

  endWait(bytes: number): void {
    Atomics.sub(this.#words, this.#own + WAITING, unitsOf(bytes))
  }

  get freeBytes(): number {
    return (this.#capacity - this.#sum(HELD)) * UNIT_BYTES
  }

  /** Counts a body that has its memory for one more holder, whatever its share, and returns what the bodies of that holder have then. */
  addFor({ cells }: MemoryHolder, bytes: number): number {
    this.#addToCells(cells, HELD_CELLS, unitsOf(bytes))
    return this.#inCells(cells, 0) * UNIT_BYTES
  }

  /** Takes `addFor` back. */
  removeFor({ cells }: MemoryHolder, bytes: number): void {
    this.#addToCells(cells, HELD_CELLS, -unitsOf(bytes))
  }

  /** Number of bytes that all workers wait for beyond what is free. */
  get shortBytes(): number {
    const wanted = this.#sum(WANTED)
    return wanted === 0 ? 0 : Math.max(0, wanted - (this.#capacity - this.#sum(HELD))) * UNIT_BYTES
  }

  /** Announces to the other workers how much the slowest upload of this one brought, and returns whether it is the slowest of all. */
  compareSlowest(broughtBytes: number): boolean {
    const words = this.#words
    const own = Math.min(broughtBytes + 1, MAX_WORD)
    Atomics.store(words, this.#own + SLOWEST, own)
    for (let lane = LINE_WORDS; lane < words.length; lane += LANE_WORDS) {
      const other = Atomics.load(words, lane + SLOWEST)
      if (other !== 0 && (other < own || (other === own && lane < this.#own))) return false
    }
    return true
  }

  /** Announces that this worker has no upload that may be ended. */
  withdrawSlowest(): void {
    Atomics.store(this.#words, this.#own + SLOWEST, 0)
  }

  #sum(word: number): number {
    let sum = 0
    for (let lane = LINE_WORDS; lane < this.#words.length; lane += LANE_WORDS) sum += Atomics.load(this.#words, lane + word)
    return sum
  }

  #fitsShares(holders: MemoryHolders, change: number): boolean {
    for (let i = 0; i < holders.length; i++) {
      const { cells, shares } = holders[i]!
      if (this.#inCells(cells, 0) + change > shares * this.#share) return false
    }
    return true
  }

  /** Returns what a holder has and what it waits for in lanes before `wantedEnd`. The sum is too high if other holders share both of its cells. */
  #inCells(cells: number, wantedEnd: number): number {
    const words = this.#words
    let first = 0
    let second = 0
    for (let lane = LINE_WORDS; lane < words.length; lane += LANE_WORDS) {
      first += Atomics.load(words, lane + HELD_CELLS + firstOf(cells))
      second += Atomics.load(words, lane + HELD_CELLS + secondOf(cells))
      if (lane >= wantedEnd) continue
      first += Atomics.load(words, lane + WANTED_CELLS + firstOf(cells))
      second += Atomics.load(words, lane + WANTED_CELLS + secondOf(cells))
    }
    return Math.min(first, second)
  }

  #add(holders: MemoryHolders, change: number): void {
    Atomics.add(this.#words, this.#own + HELD, change)
    for (let i = 0; i < holders.length; i++) this.#addToCells(holders[i]!.cells, HELD_CELLS, change)
  }

  #addToCells(cells: number, from: number, change: number): void {
    Atomics.add(this.#words, this.#own + from + firstOf(cells), change)
    Atomics.add(this.#words, this.#own + from + secondOf(cells), change)
  }
}

export function partWords(workers: number): number {
  return laneOf(workers + 1)
}

/** Frees what a dead worker held, including the lock. */
export function forgetWorker(words: Int32Array, worker: number): void {
  if (ownerOf(words, LOCK) === worker + 1) release(words, LOCK)
  words.fill(0, laneOf(worker), laneOf(worker + 1))
}

/** Returns the cells of a holder with this hash. */
export function cellsOf(hash: number): number {
  return hash & (2 ** (2 * CELL_BITS) - 1)
}

/** Returns how many bytes a claim of this size is counted as. */
export function countedBytes(bytes: number): number {
  return unitsOf(bytes) * UNIT_BYTES
}

function laneOf(worker: number): number {
  return LINE_WORDS + (worker - 1) * LANE_WORDS
}

function firstOf(cells: number): number {
  return cells & (ROW_WORDS - 1)
}

function secondOf(cells: number): number {
  return ROW_WORDS + (cells >>> CELL_BITS)
}

function unitsOf(bytes: number): number {
  return Math.ceil(bytes / UNIT_BYTES)
}
