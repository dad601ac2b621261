import { acquire, ownerOf, release } from '../shared-lock.ts'

/** Claims are counted in whole KiB: a 32-bit word counts two TiB of them. */
const UNIT_BYTES = 1024
/** A cache line for each worker. The first line has the lock. */
const LANE_WORDS = 16
const LOCK = 0
const HELD = 0
const WANTED = 1
/** What the worker's slowest upload brought, and 1; 0: it has no upload that may be ended. */
const SLOWEST = 2
const MAX_WORD = 2 ** 31 - 1

/**
 * What the bodies that are read for token budgets hold, in all workers together and up to a bound. Each worker has a lane of
 * its own, so that the claims of one that dies can be told and freed.
 */
export class BodyMemory {
  readonly #words: Int32Array
  readonly #capacity: number
  readonly #owner: number
  readonly #own: number

  /** Workers count from 1. */
  constructor(buffer: SharedArrayBuffer, worker: number, maxBytes: number) {
    this.#words = new Int32Array(buffer)
    this.#capacity = unitsOf(maxBytes)
    this.#owner = worker + 1
    this.#own = worker * LANE_WORDS
  }

  /** What this worker holds. */
  get ownBytes(): number {
    return Atomics.load(this.#words, this.#own + HELD) * UNIT_BYTES
  }

  /** Changes what a body holds. Returns false, and changes nothing, where there is no room for more. */
  resize(fromBytes: number, toBytes: number): boolean {
    const words = this.#words
    const change = unitsOf(toBytes) - unitsOf(fromBytes)
    if (change <= 0) {
      Atomics.add(words, this.#own + HELD, change)
      return true
    }
    acquire(words, LOCK, this.#owner)
    const fits = this.#sum(HELD) + change <= this.#capacity
    if (fits) Atomics.add(words, this.#own + HELD, change)
    release(words, LOCK)
    return fits
  }

  /** Tells the other workers what the uploads of this one wait for. */
  want(bytes: number): void {
    Atomics.store(this.#words, this.#own + WANTED, Math.min(unitsOf(bytes), MAX_WORD))
  }

  /** What all workers wait for beyond what is free. */
  get shortBytes(): number {
    const wanted = this.#sum(WANTED)
    return wanted === 0 ? 0 : Math.max(0, wanted - (this.#capacity - this.#sum(HELD))) * UNIT_BYTES
  }

  /** Tells the other workers what the slowest upload of this one brought, and returns whether it is the slowest of all. */
  compareSlowest(broughtBytes: number): boolean {
    const words = this.#words
    const own = Math.min(broughtBytes + 1, MAX_WORD)
    Atomics.store(words, this.#own + SLOWEST, own)
    for (let lane = LANE_WORDS; lane < words.length; lane += LANE_WORDS) {
      const other = Atomics.load(words, lane + SLOWEST)
      if (other !== 0 && (other < own || (other === own && lane < this.#own))) return false
    }
    return true
  }

  /** This worker has no upload that may be ended. */
  withdrawSlowest(): void {
    Atomics.store(this.#words, this.#own + SLOWEST, 0)
  }

  /** What a dead worker held is free. */
  forgetWorker(worker: number): void {
    const words = this.#words
    if (ownerOf(words, LOCK) === worker + 1) release(words, LOCK)
    for (const word of [HELD, WANTED, SLOWEST]) Atomics.store(words, worker * LANE_WORDS + word, 0)
  }

  #sum(word: number): number {
    let sum = 0
    for (let lane = LANE_WORDS; lane < this.#words.length; lane += LANE_WORDS) sum += Atomics.load(this.#words, lane + word)
    return sum
  }
}

export function newBodyMemoryBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * LANE_WORDS * 4)
}

function unitsOf(bytes: number): number {
  return Math.ceil(bytes / UNIT_BYTES)
}
