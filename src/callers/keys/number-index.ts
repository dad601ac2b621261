const MIN_BITS = 4

/**
 * A hash table of numbers above 0, in eight to sixteen bytes for each: open addressing with linear probing, at most half full. What the numbers stand for is
 * elsewhere; `hashOf` reads it. The upper bits of a hash say where a search begins, so hashes must differ in these, and numbers lie nearly in the order of
 * their hashes.
 */
export class NumberIndex {
  readonly #hashOf: (number: number) => number
  #bits = MIN_BITS
  #places = new Uint32Array(2 ** MIN_BITS)
  #size = 0

  constructor(hashOf: (number: number) => number) {
    this.#hashOf = hashOf
  }

  /** Makes room for this many numbers at once, which saves growing step by step. */
  reserve(count: number): void {
    const bits = Math.ceil(Math.log2(count * 2))
    if (bits > this.#bits) this.#grow(bits)
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
    if ((this.#size + 1) * 2 > this.#places.length) this.#grow(this.#bits + 1)
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

  /**
   * Yields the numbers from this hash on, in runs: the hashes in a run are in no order, but none is as large as one in the next run. The first run may have
   * smaller ones too. Nothing may be added or removed meanwhile.
   */
  *runsFrom(hash: number): Generator<number[]> {
    const [size, mask] = [this.#places.length, this.#places.length - 1]
    let run: number[] = []
    for (let at = this.#home(hash); ; at++) {
      const number = this.#places[at & mask]!
      if (number === 0) {
        if (run.length > 0) yield run
        if (at >= size) return
        run = []
        continue
      }
      // A run that reaches the end of the places continues in the first ones, whose numbers then belong to the last run and not to the first.
      const home = this.#home(this.#hashOf(number))
      if (home + ((at - home) & mask) === at) run.push(number)
    }
  }

  #placeOf(number: number): number {
    const mask = this.#places.length - 1
    let at = this.#home(this.#hashOf(number))
    while (this.#places[at] !== number) at = (at + 1) & mask
    return at
  }

  #home(hash: number): number {
    return hash >>> (32 - this.#bits)
  }

  #insert(number: number): void {
    const mask = this.#places.length - 1
    let at = this.#home(this.#hashOf(number))
    while (this.#places[at] !== 0) at = (at + 1) & mask
    this.#places[at] = number
  }

  #grow(bits: number): void {
    const old = this.#places
    this.#bits = bits
    this.#places = new Uint32Array(2 ** bits)
    for (const number of old) if (number !== 0) this.#insert(number)
  }
}
