import {
  DIGEST,
  FREE,
  GONE,
  HALF_BIT,
  INDEX_STATE,
  indexBits,
  type KeyMemory,
  RECORD_WORDS,
  SIZE_BITS,
  SIZE_MASK,
  SWITCH,
} from './key-memory.ts'

/**
 * The index of records by digest, as the main thread writes it: open addressing with linear probing. Nothing in it ever moves while workers may search it. When
 * it is too full, with keys or with places where one was, the other one of two is filled, and then all workers use that.
 */
export class SharedKeyIndex {
  readonly #header: Int32Array
  readonly #places: Int32Array
  readonly #records: Int32Array
  #state: number
  #keys = 0
  /** Places that are not FREE. */
  #used = 0

  constructor({ header, index, records }: KeyMemory) {
    this.#header = new Int32Array(header)
    this.#places = new Int32Array(index)
    this.#records = new Int32Array(records)
    this.#state = Atomics.load(this.#header, INDEX_STATE)
  }

  /** Makes room for this many keys at once. */
  reserve(keys: number): void {
    if (indexBits(keys) > (this.#state & SIZE_MASK)) this.#rebuild(keys)
  }

  add(record: number): void {
    this.#keys++
    // The second bound leaves room for many removals before the next rebuild, however full the index is.
    if (this.#keys * 2 > this.#size || (this.#used + 1) * 4 > this.#size * 3) this.#rebuild(this.#keys)
    this.#insert(record)
  }

  replace(former: number, record: number): void {
    Atomics.store(this.#places, this.#placeOf(former), record + 1)
  }

  remove(record: number): void {
    Atomics.store(this.#places, this.#placeOf(record), GONE)
    this.#keys--
  }

  get #size(): number {
    return 1 << (this.#state & SIZE_MASK)
  }

  get #base(): number {
    return baseOf(this.#state, this.#places.length)
  }

  #insert(record: number): void {
    const mask = this.#size - 1
    let at = homeOf(this.#records[record * RECORD_WORDS + DIGEST]!, this.#state)
    while (this.#places[this.#base + at]! > FREE) at = (at + 1) & mask
    if (this.#places[this.#base + at] === FREE) this.#used++
    Atomics.store(this.#places, this.#base + at, record + 1)
  }

  #placeOf(record: number): number {
    const mask = this.#size - 1
    let at = homeOf(this.#records[record * RECORD_WORDS + DIGEST]!, this.#state)
    while (this.#places[this.#base + at] !== record + 1) at = (at + 1) & mask
    return this.#base + at
  }

  /** Fills the other half with the keys that there are, with room for this many, and switches to it. */
  #rebuild(keys: number): void {
    const [from, to] = [this.#base, this.#base + this.#size]
    const bits = Math.max(indexBits(1), Math.min(indexBits(keys), Math.log2(this.#places.length / 2)))
    const number = ((this.#state >>> (SIZE_BITS + 1)) + 1) * SWITCH
    this.#state = number | ((this.#state & HALF_BIT) ^ HALF_BIT) | bits | 0
    this.#places.fill(FREE, this.#base, this.#base + this.#size)
    this.#used = 0
    for (let at = from; at < to; at++) if (this.#places[at]! > FREE) this.#insert(this.#places[at]! - 1)
    Atomics.store(this.#header, INDEX_STATE, this.#state)
  }
}

/** Returns where the index in use begins. */
export function baseOf(state: number, places: number): number {
  return (state & HALF_BIT) === 0 ? 0 : places / 2
}

/** Digests are evenly spread, so the first bits of one say where a search for it begins. */
export function homeOf(firstWord: number, state: number): number {
  return firstWord >>> (32 - (state & SIZE_MASK))
}
