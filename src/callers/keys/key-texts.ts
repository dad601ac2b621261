import { randomBytes } from 'node:crypto'
import { TEXT_BYTES, TEXT_HEAD_WORDS, TEXT_NUMBER, TEXT_ROOM, TEXT_USERS } from './key-memory.ts'
import { NumberIndex } from './number-index.ts'

/** Room is given out in multiples of this, so that a text that is gone can make room for one of about its length. */
const ROOM_STEP_WORDS = 4

/** The main thread's view of the texts: it stores each text once, and counts the records that use it. A place is a number of words, never 0. */
export class KeyTexts {
  readonly #words: Int32Array
  readonly #bytes: Buffer
  readonly #index: NumberIndex
  readonly #seed = randomBytes(4).readInt32LE()
  /** The first of the unused places with this room; each leads to the next in its TEXT_NUMBER. */
  readonly #unused = new Map<number, number>()
  #end = ROOM_STEP_WORDS
  #lastNumber = 0
  /** The text that is being looked for, as whole words, in the order of this machine's bytes; workers read them in the same. A start looks for millions. */
  #wanted = new Int32Array(256)
  #wantedBytes = Buffer.from(this.#wanted.buffer)

  constructor(texts: SharedArrayBuffer) {
    this.#words = new Int32Array(texts)
    this.#bytes = Buffer.from(texts)
    this.#index = new NumberIndex((place) => this.#hash(this.#words, place + TEXT_HEAD_WORDS, wordsOf(this.#words[place + TEXT_BYTES]!)))
  }

  /** Makes room in the index for this many different texts. */
  reserve(count: number): void {
    this.#index.reserve(count)
  }

  /** Returns the place of the text and counts one more user; undefined if there is no room left. */
  use(text: string): number | undefined {
    const bytes = this.#want(text)
    const words = wordsOf(bytes)
    const known = this.#index.find(this.#hash(this.#wanted, 0, words), (place) => this.#isWanted(place, bytes, words))
    if (known !== undefined) {
      this.#words[known + TEXT_USERS]!++
      return known
    }
    const place = this.#newPlace(roomFor(words))
    if (place === undefined) return undefined
    this.#write(place, bytes, words)
    this.#index.add(place)
    return place
  }

  /** The text has one user less. Its place is used again once it has none. */
  release(place: number): void {
    if (--this.#words[place + TEXT_USERS]! > 0) return
    this.#index.remove(place)
    const room = this.#words[place + TEXT_ROOM]!
    Atomics.store(this.#words, place + TEXT_NUMBER, this.#unused.get(room) ?? 0)
    this.#unused.set(room, place)
  }

  bytesOf(place: number): Buffer {
    return this.#bytesOf(place)
  }

  textOf(place: number): string {
    return this.#bytesOf(place).toString()
  }

  #newPlace(room: number): number | undefined {
    const exact = this.#take(room)
    if (exact !== undefined) return exact
    if (this.#end + room <= this.#words.length) {
      const place = this.#end
      this.#end += room
      this.#words[place + TEXT_ROOM] = room
      return place
    }
    for (const unused of this.#unused.keys()) if (unused > room) return this.#take(unused)
    return undefined
  }

  #take(room: number): number | undefined {
    const place = this.#unused.get(room)
    if (place === undefined) return undefined
    const next = this.#words[place + TEXT_NUMBER]!
    if (next === 0) this.#unused.delete(room)
    else this.#unused.set(room, next)
    return place
  }

  /** Returns how many bytes the text has. */
  #want(text: string): number {
    if (text.length * 3 > this.#wantedBytes.length) {
      this.#wanted = new Int32Array(text.length)
      this.#wantedBytes = Buffer.from(this.#wanted.buffer)
    }
    const bytes = this.#wantedBytes.write(text)
    for (let i = bytes; (i & 3) !== 0; i++) this.#wantedBytes[i] = 0
    return bytes
  }

  #isWanted(place: number, bytes: number, words: number): boolean {
    if (this.#words[place + TEXT_BYTES] !== bytes) return false
    const start = place + TEXT_HEAD_WORDS
    for (let i = 0; i < words; i++) if (this.#words[start + i] !== this.#wanted[i]) return false
    return true
  }

  #write(place: number, bytes: number, count: number): void {
    const words = this.#words
    this.#lastNumber = (this.#lastNumber + 1) | 0
    Atomics.store(words, place + TEXT_USERS, 1)
    Atomics.store(words, place + TEXT_NUMBER, this.#lastNumber)
    Atomics.store(words, place + TEXT_BYTES, bytes)
    for (let i = 0; i < count; i++) Atomics.store(words, place + TEXT_HEAD_WORDS + i, this.#wanted[i]!)
  }

  #bytesOf(place: number): Buffer {
    const start = (place + TEXT_HEAD_WORDS) * 4
    return this.#bytes.subarray(start, start + this.#words[place + TEXT_BYTES]!)
  }

  /** The seed keeps those who choose labels from choosing texts that collide. */
  #hash(words: Int32Array, start: number, count: number): number {
    let hash = this.#seed
    for (let i = start; i < start + count; i++) {
      hash = Math.imul(hash ^ words[i]!, 0x85eb_ca6b)
      hash ^= hash >>> 15
    }
    return Math.imul(hash, 0x9e37_79b1)
  }
}

function wordsOf(bytes: number): number {
  return (bytes + 3) >> 2
}

function roomFor(words: number): number {
  return Math.ceil((TEXT_HEAD_WORDS + words) / ROOM_STEP_WORDS) * ROOM_STEP_WORDS
}
