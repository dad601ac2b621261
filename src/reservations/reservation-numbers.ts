import { hkdfSync, randomBytes } from 'node:crypto'

const HOUR_MS = 60 * 60 * 1000
/** A reservation can be settled for two hours, so numbers of three clock hours are in use; the fourth slot is for the next hour. */
const SLOTS = 4
/** Numbers that a worker can give out in an hour, about 2,300 a second. */
const CAPACITY = 2 ** 23
const SLOT_WORDS = CAPACITY / 32
/** The head of a lane: for each slot its hour and how many numbers were given out, then how many hours the lane is ahead of the clock. */
const HEAD_WORDS = 16
const LANE_WORDS = HEAD_WORDS + SLOTS * SLOT_WORDS

/** The numbers that a worker gave out in one hour. */
interface IssuedHour {
  readonly worker: number
  readonly hour: number
  readonly count: number
  /** One bit for each number, set once it is settled. */
  readonly bits: Uint8Array
}

/**
 * Numbers of reservations: a lane for each worker, in it a slot for each hour, and a bit for each number that is set once it is settled. All threads share
 * this memory: each worker gives out numbers from its own lane only, but any may mark numbers of any lane. Pages that are never touched use no physical
 * memory.
 */
export class ReservationNumbers {
  readonly #words: Int32Array
  readonly #own: number

  /** Workers count from 1. A reader with worker 0 may mark and list numbers, but not give any out. */
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

  /** Returns the next number, or undefined once the numbers of this hour are used up. */
  next(wallMs: number): { readonly hour: number; readonly number: number } | undefined {
    const words = this.#words
    const hour = this.#hourOf(Math.floor(wallMs / HOUR_MS))
    const slot = hour % SLOTS
    if (words[hourAt(this.#own, slot)] !== hour) this.#begin(slot, hour)
    const count = countAt(this.#own, slot)
    if (words[count]! >= CAPACITY) return undefined
    return { hour, number: Atomics.add(words, count, 1) }
  }

  /** Marks a number as settled. 'lost' means that it was never given out, or so long ago that its slot has been reused. */
  mark(worker: number, hour: number, number: number): 'marked' | 'already' | 'lost' {
    const words = this.#words
    const lane = laneOf(worker)
    const slot = hour % SLOTS
    if (worker < 1 || lane >= words.length || Atomics.load(words, hourAt(lane, slot)) !== hour) return 'lost'
    if (number >= Atomics.load(words, countAt(lane, slot))) return 'lost'
    return markBit(words, bitsAt(lane, slot), number)
  }

  /** Yields a copy of every hour in use. */
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
   * The clock may be set back, but hours never go back, or numbers would be given out twice. If the clock had been far ahead, hours continue from there,
   * one each hour; otherwise the numbers of a single hour would have to last until the clock catches up.
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

  /** The slot's old hour is at least four hours back by the lane's count, which skips hours when the clock is set. */
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

/** Sets a bit. If several threads try, exactly one gets 'marked'. */
function markBit(words: Int32Array, from: number, number: number): 'marked' | 'already' {
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

/** The memory of reservations that all threads of a process share. */
export interface ReservationMemory {
  /** The key that seals tokens. */
  readonly key: Uint8Array
  /** The instance's id, then its own key, as kept in the state file. */
  readonly identity: Uint8Array
  /** Id of this instance, 16 hex digits. */
  readonly instance: string
  /** Id of this process, 16 hex digits. */
  readonly run: string
  readonly numbers: SharedArrayBuffer
  /** Numbers that earlier processes gave out. */
  readonly earlier: SharedArrayBuffer
}

/** The part of a state file that is about reservations. */
export interface SavedReservations {
  /** The instance's id, then its key. */
  readonly identity: Buffer | undefined
  readonly blocks: readonly Buffer[]
}

const ID_BYTES = 8
const KEY_BYTES = 32
const IDENTITY_BYTES = ID_BYTES + KEY_BYTES

export interface MemoryOptions {
  readonly workers: number
  /** Secret that a fleet shares. Without one, the key is that of the state file. */
  readonly secret: string | undefined
  readonly saved: SavedReservations | undefined
  readonly wallMs: number
}

export function newReservationMemory({ workers, secret, saved, wallMs }: MemoryOptions): ReservationMemory {
  const identity = saved?.identity?.length === IDENTITY_BYTES ? saved.identity : randomBytes(IDENTITY_BYTES)
  return {
    // These are copies because passing a view to a thread would copy the whole buffer behind it.
    identity: Uint8Array.from(identity),
    key: secret === undefined ? Uint8Array.from(identity.subarray(ID_BYTES)) : keyFrom(secret),
    instance: identity.toString('hex', 0, ID_BYTES),
    run: randomBytes(ID_BYTES).toString('hex'),
    numbers: newNumbersBuffer(workers),
    earlier: newEarlierBuffer(saved?.blocks ?? [], wallMs),
  }
}

/** Returns a function that tells whether this process, or an earlier one of this instance, has issued reservations, which others may settle. */
export function issuedWatch({ numbers, earlier }: ReservationMemory): () => boolean {
  const own = new ReservationNumbers(numbers, 0)
  return () => own.hasIssued || earlier.byteLength > 0
}

/** Returns what to save. It must be called after the counters were copied: a settlement in between is then lost rather than done twice. */
export function savedReservations({ identity, run, numbers, earlier }: ReservationMemory, savedMs: number): SavedReservations {
  const blocks = [...new EarlierRuns(earlier).saved(savedMs)]
  for (const issued of new ReservationNumbers(numbers, 0).issued()) {
    if (isKeptHour(issued.hour, savedMs)) blocks.push(encodeBlock(run, issued, savedMs))
  }
  return { identity: Buffer.from(identity), blocks }
}

function keyFrom(secret: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', 'edge reservations', KEY_BYTES))
}

/** Reservations of older hours have expired. */
const KEPT_HOURS = 3
const RUN_DIGITS = 16
const HEAD_BYTES = 32

/**
 * The numbers that earlier processes gave out, in memory that all threads share, as the state file keeps them, one block after the other:
 *
 *     block   run (8 bytes) | worker (u32) | hour (u32) | count (u32) | 0 (u32) | wall time of saving, ms (f64) | a bit for each number, in whole 8 bytes
 */
export class EarlierRuns {
  readonly #words: Int32Array
  readonly #bytes: Buffer
  readonly #blocks = new Map<string, Block>()

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer)
    this.#bytes = Buffer.from(buffer)
    for (let at = 0; at + HEAD_BYTES <= this.#bytes.length; ) {
      const block = readBlock(this.#bytes, at)
      this.#blocks.set(nameOf(block), block)
      at += blockBytes(block.count)
    }
  }

  /** Returns when the counters that include this reservation were saved; undefined if they were not, or if that is unknown. */
  savedMs(run: string, worker: number, hour: number): number | undefined {
    return this.#blocks.get(nameOf({ run, worker, hour }))?.savedMs
  }

  mark(run: string, worker: number, hour: number, number: number): 'marked' | 'already' | 'lost' {
    const block = this.#blocks.get(nameOf({ run, worker, hour }))
    if (block === undefined || number >= block.count) return 'lost'
    return markBit(this.#words, (block.at + HEAD_BYTES) / 4, number)
  }

  /** Yields the blocks that must be saved again. */
  *saved(wallMs: number): Generator<Buffer> {
    for (const block of this.#blocks.values()) {
      if (isKept(block, wallMs)) yield Buffer.from(this.#bytes.subarray(block.at, block.at + blockBytes(block.count)))
    }
  }
}

/** Encodes the block of an hour whose numbers this process gave out. */
export function encodeBlock(run: string, { worker, hour, count, bits }: IssuedHour, savedMs: number): Buffer {
  const block = Buffer.alloc(blockBytes(count))
  block.write(run, 'hex')
  block.writeUInt32LE(worker, 8)
  block.writeUInt32LE(hour, 12)
  block.writeUInt32LE(count, 16)
  block.writeDoubleLE(savedMs, 24)
  block.set(bits, HEAD_BYTES)
  return block
}

/** Copies blocks into memory that all threads share, leaving out damaged and expired ones. */
export function newEarlierBuffer(blocks: readonly Buffer[], wallMs: number): SharedArrayBuffer {
  const kept = blocks.filter((block) => isWhole(block) && isKept(readBlock(block, 0), wallMs))
  const buffer = new SharedArrayBuffer(kept.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const block of kept) {
    Buffer.from(buffer).set(block, at)
    at += block.length
  }
  return buffer
}

interface Block {
  readonly at: number
  readonly run: string
  readonly worker: number
  readonly hour: number
  readonly count: number
  readonly savedMs: number
}

function readBlock(bytes: Buffer, at: number): Block {
  return {
    at,
    run: bytes.toString('hex', at, at + RUN_DIGITS / 2),
    worker: bytes.readUInt32LE(at + 8),
    hour: bytes.readUInt32LE(at + 12),
    count: bytes.readUInt32LE(at + 16),
    savedMs: bytes.readDoubleLE(at + 24),
  }
}

function isWhole(block: Buffer): boolean {
  return block.length >= HEAD_BYTES && block.length === blockBytes(block.readUInt32LE(16))
}

/** A block's hour may be ahead of the clock, but nothing was issued after it was saved. */
function isKept({ hour, savedMs }: Block, wallMs: number): boolean {
  return isKeptHour(Math.min(hour, savedMs / HOUR_MS), wallMs)
}

function isKeptHour(hour: number, wallMs: number): boolean {
  return hour > wallMs / HOUR_MS - 1 - KEPT_HOURS
}

function blockBytes(count: number): number {
  return HEAD_BYTES + Math.ceil(count / 64) * 8
}

function nameOf({ run, worker, hour }: Pick<Block, 'run' | 'worker' | 'hour'>): string {
  return `${run} ${worker} ${hour}`
}
