const MIN_BITS = 4

/**
 * A hash table of numbers above 0, in four to eight bytes for each: open addressing with linear probing, at most half full. What the numbers stand for is
 * elsewhere; `hashOf` reads it.
 */
export class NumberIndex {
  readonly #hashOf: (number: number) => number
  #places = new Uint32Array(2 ** MIN_BITS)
  #bits = MIN_BITS
  #size = 0

  constructor(hashOf: (number: number) => number) {
    this.#hashOf = hashOf
  }

  find(hash: number, isWanted: (number: number) => boolean): number | undefined {
    const mask = this.#places.length - 1
    for (let at = this.#home(hash); ; at = (at + 1) & mask) {
      const number = this.#places[at]!
      if (number === 0) return undefined
      if (isWanted(number)) return number
    }
  }

  /** The number must not be there yet. */
  add(number: number): void {
    if ((this.#size + 1) * 2 > this.#places.length) this.#grow()
    this.#insert(number)
    this.#size++
  }

  /** The number must be there, and `hashOf` must still know its hash. */
  remove(number: number): void {
    const mask = this.#places.length - 1
    let hole = this.#placeOf(number)
    // Numbers after the hole move into it, unless that would put them before the place where searches for them begin.
    for (let at = (hole + 1) & mask; this.#places[at] !== 0; at = (at + 1) & mask) {
      const home = this.#home(this.#hashOf(this.#places[at]!))
      if (((at - home) & mask) < ((at - hole) & mask)) continue
      this.#places[hole] = this.#places[at]!
      hole = at
    }
    this.#places[hole] = 0
    this.#size--
  }

  /** Puts `next` where `number` is; both must have the same hash. */
  replace(number: number, next: number): void {
    this.#places[this.#placeOf(number)] = next
  }

  /** Yields all numbers. Nothing may be added or removed meanwhile. */
  *[Symbol.iterator](): Generator<number> {
    for (const number of this.#places) if (number !== 0) yield number
  }

  #placeOf(number: number): number {
    const mask = this.#places.length - 1
    let at = this.#home(this.#hashOf(number))
    while (this.#places[at] !== number) at = (at + 1) & mask
    return at
  }

  #home(hash: number): number {
    // The multiplication spreads hashes whose upper bits are alike.
    return Math.imul(hash, 0x9e37_79b1) >>> (32 - this.#bits)
  }

  #insert(number: number): void {
    const mask = this.#places.length - 1
    let at = this.#home(this.#hashOf(number))
    while (this.#places[at] !== 0) at = (at + 1) & mask
    this.#places[at] = number
  }

  #grow(): void {
    const old = this.#places
    this.#bits++
    this.#places = new Uint32Array(2 ** this.#bits)
    for (const number of old) if (number !== 0) this.#insert(number)
  }
}
