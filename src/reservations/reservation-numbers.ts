const HOUR_MS = 60 * 60 * 1000
/** A reservation can be settled for two hours, so that three hours of numbers are in use; the fourth is the next. */
const SLOTS = 4
/** Numbers that a worker can give out in an hour: 2,300 a second. */
const CAPACITY = 2 ** 23
const SLOT_WORDS = CAPACITY / 32
/** For each slot its hour, and how many of its numbers were given out; then how far the lane's hours are ahead of the clock's. */
const HEAD_WORDS = 16
const LANE_WORDS = HEAD_WORDS + SLOTS * SLOT_WORDS

/** What a worker gave out in an hour. */
export interface IssuedHour {
  readonly worker: number
  readonly hour: number
  readonly count: number
  /** A bit for each number, set where it is settled. */
  readonly bits: Uint8Array
}

/**
 * The numbers of reservations, a lane for each worker and a slot for each hour, with a bit for each number that is settled. Shared by all
 * threads: each gives out numbers of its own lane, and marks those of any. Pages that are never touched cost nothing.
 */
export class ReservationNumbers {
  readonly #words: Int32Array
  readonly #own: number

  /** Workers count from 1; 0 only reads. */
  constructor(buffer: SharedArrayBuffer, worker: number) {
    this.#words = new Int32Array(buffer)
    this.#own = laneOf(worker)
  }

  /** Whether any worker has given out a number. */
  get hasIssued(): boolean {
    for (let lane = 0; lane < this.#words.length; lane += LANE_WORDS) {
      for (let slot = 0; slot < SLOTS; slot++) if (Atomics.load(this.#words, hourAt(lane, slot)) !== 0) return true
    }
    return false
  }

  /** The next number, or undefined where this hour's are used up. */
  next(wallMs: number): { readonly hour: number; readonly number: number } | undefined {
    const words = this.#words
    const hour = this.#hourOf(Math.floor(wallMs / HOUR_MS))
    const slot = hour % SLOTS
    if (words[hourAt(this.#own, slot)] !== hour) this.#begin(slot, hour)
    const count = countAt(this.#own, slot)
    if (words[count]! >= CAPACITY) return undefined
    return { hour, number: Atomics.add(words, count, 1) }
  }

  /** Marks a number as settled. 'lost': it was never given out, or so long ago that its slot is used again. */
  mark(worker: number, hour: number, number: number): 'marked' | 'already' | 'lost' {
    const words = this.#words
    const lane = laneOf(worker)
    const slot = hour % SLOTS
    if (worker < 1 || lane >= words.length || Atomics.load(words, hourAt(lane, slot)) !== hour) return 'lost'
    if (number >= Atomics.load(words, countAt(lane, slot))) return 'lost'
    return markBit(words, bitsAt(lane, slot), number)
  }

  /** Copies of all hours in use. */
  *issued(): Generator<IssuedHour> {
    const words = this.#words
    for (let lane = 0; lane < words.length; lane += LANE_WORDS) {
      for (let slot = 0; slot < SLOTS; slot++) {
        const hour = Atomics.load(words, hourAt(lane, slot))
        const count = Atomics.load(words, countAt(lane, slot))
        if (hour === 0 || count === 0) continue
        const from = bitsAt(lane, slot)
        const bits = new Uint8Array(words.slice(from, from + Math.ceil(count / 32)).buffer)
        yield { worker: lane / LANE_WORDS + 1, hour, count, bits }
      }
    }
  }

  /**
   * The clock may be set back, hours never go back: their numbers would be given out twice. After a clock that was far ahead they go on from
   * there, one each hour; otherwise that one hour's numbers would have to last until the clock is there again.
   */
  #hourOf(clockHour: number): number {
    const words = this.#words
    let newest = 0
    for (let slot = 0; slot < SLOTS; slot++) newest = Math.max(newest, words[hourAt(this.#own, slot)]!)
    const hour = clockHour + words[aheadAt(this.#own)]!
    if (hour >= newest - 1) return Math.max(hour, newest)
    Atomics.store(words, aheadAt(this.#own), newest + 1 - clockHour)
    return newest + 1
  }

  /** What was in the slot is at least four hours old, or the clock was set since. */
  #begin(slot: number, hour: number): void {
    const words = this.#words
    Atomics.store(words, hourAt(this.#own, slot), 0)
    const from = bitsAt(this.#own, slot)
    words.fill(0, from, from + Math.ceil(words[countAt(this.#own, slot)]! / 32))
    Atomics.store(words, countAt(this.#own, slot), 0)
    Atomics.store(words, hourAt(this.#own, slot), hour)
  }
}

export function newNumbersBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer(workers * LANE_WORDS * 4)
}

/** Sets a bit; of all threads that try, one gets 'marked'. */
export function markBit(words: Int32Array, from: number, number: number): 'marked' | 'already' {
  const bit = 1 << (number % 32)
  return (Atomics.or(words, from + Math.floor(number / 32), bit) & bit) === 0 ? 'marked' : 'already'
}

function laneOf(worker: number): number {
  return (worker - 1) * LANE_WORDS
}

function hourAt(lane: number, slot: number): number {
  return lane + slot * 2
}

function countAt(lane: number, slot: number): number {
  return lane + slot * 2 + 1
}

function aheadAt(lane: number): number {
  return lane + SLOTS * 2
}

function bitsAt(lane: number, slot: number): number {
  return lane + HEAD_WORDS + slot * SLOT_WORDS
}
