/** Numbers from 0 to 1 that the same seed brings again. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A 32-bit counter, its bits well stirred. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0
    let bits = this.#state
    bits = Math.imul(bits ^ (bits >>> 16), 0x45d9f3b)
    bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b3c6d)
    return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  oneOf<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }
}
