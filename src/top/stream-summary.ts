const NONE = -1

/**
 * Counts the most frequent items of a stream in a fixed number of slots: Space-Saving, by Metwally, Agrawal and El Abbadi (2005). When all slots are in
 * use, a new item takes over the slot with the smallest count and continues from that count. So no count is too low, none is too high by more than
 * `leastCount`, and an item without a slot has occurred at most that often. Each step takes constant time and allocates nothing.
 *
 * Items are 64-bit hashes. Slots with the same count form a linked list, and the counts in use form another, in ascending order.
 */
export class StreamSummary {
  readonly capacity: number
  /** Number of slots in use. */
  length = 0
  /** Whether the item added last had no slot before. */
  isNew = false
  readonly lows: Int32Array
  readonly highs: Int32Array
  /** Hash chains of slots: the first slot of each chain, and the successor of each slot. */
  readonly #chains: Int32Array
  readonly #afterInChain: Int32Array
  /** For each slot, the index of its count and its neighbours in the list of slots with that count. */
  readonly #countOf: Int32Array
  readonly #before: Int32Array
  readonly #after: Int32Array
  /** For each count in use, its value, its first slot, and the next smaller and next larger counts. */
  readonly #values: Float64Array
  readonly #firsts: Int32Array
  readonly #smaller: Int32Array
  readonly #larger: Int32Array
  #least = NONE
  /** Head of the list of unused counts, linked by `#larger`. */
  #free = 0

  constructor(capacity: number) {
    this.capacity = capacity
    const slots = (): Int32Array => new Int32Array(capacity)
    this.lows = slots()
    this.highs = slots()
    this.#chains = new Int32Array(2 ** Math.ceil(Math.log2(capacity * 2)))
    this.#afterInChain = slots()
    this.#countOf = slots()
    this.#before = slots()
    this.#after = slots()
    // There is one spare count, so that a new count can always be inserted before an old one is dropped.
    this.#values = new Float64Array(capacity + 1)
    this.#firsts = new Int32Array(capacity + 1)
    this.#smaller = new Int32Array(capacity + 1)
    this.#larger = new Int32Array(capacity + 1)
    this.clear()
  }

  clear(): void {
    this.length = 0
    this.#least = NONE
    this.#chains.fill(NONE)
    this.#free = 0
    for (let i = 0; i < this.#larger.length; i++) this.#larger[i] = i + 1
  }

  /** The largest error of any count, and the most often that an item without a slot can have occurred. */
  get leastCount(): number {
    return this.length < this.capacity ? 0 : this.#values[this.#least]!
  }

  countAt(slot: number): number {
    return this.#values[this.#countOf[slot]!]!
  }

  /** Counts an item and returns its slot. */
  add(low: number, high: number): number {
    const found = this.#find(low, high)
    this.isNew = found === NONE
    if (found !== NONE) {
      this.#raise(found)
      return found
    }
    const isFull = this.length === this.capacity
    const slot = isFull ? this.#firsts[this.#least]! : this.length++
    if (isFull) this.#unchain(slot)
    this.lows[slot] = low
    this.highs[slot] = high
    const chain = this.#chainOf(low)
    this.#afterInChain[slot] = this.#chains[chain]!
    this.#chains[chain] = slot
    if (isFull) this.#raise(slot)
    else this.#join(slot, 1, NONE)
    return slot
  }

  #chainOf(low: number): number {
    return low & (this.#chains.length - 1)
  }

  #find(low: number, high: number): number {
    let slot = this.#chains[this.#chainOf(low)]!
    while (slot !== NONE && (this.lows[slot] !== low || this.highs[slot] !== high)) slot = this.#afterInChain[slot]!
    return slot
  }

  #unchain(slot: number): void {
    const chain = this.#chainOf(this.lows[slot]!)
    const after = this.#afterInChain[slot]!
    if (this.#chains[chain] === slot) {
      this.#chains[chain] = after
      return
    }
    let before = this.#chains[chain]!
    while (this.#afterInChain[before] !== slot) before = this.#afterInChain[before]!
    this.#afterInChain[before] = after
  }

  #raise(slot: number): void {
    const count = this.#countOf[slot]!
    const value = this.#values[count]! + 1
    const isAlone = this.#before[slot] === NONE && this.#after[slot] === NONE
    const larger = this.#larger[count]!
    if (isAlone && (larger === NONE || this.#values[larger] !== value)) {
      this.#values[count] = value
      return
    }
    this.#leave(slot, count)
    this.#join(slot, value, count)
    if (isAlone) this.#drop(count)
  }

  /** Adds the slot to the list for this value, which comes next after the value at `smaller`, or is the smallest of all if that is NONE. */
  #join(slot: number, value: number, smaller: number): void {
    const next = smaller === NONE ? this.#least : this.#larger[smaller]!
    const count = next !== NONE && this.#values[next] === value ? next : this.#insert(value, smaller, next)
    const first = this.#firsts[count]!
    this.#countOf[slot] = count
    this.#before[slot] = NONE
    this.#after[slot] = first
    if (first !== NONE) this.#before[first] = slot
    this.#firsts[count] = slot
  }

  #leave(slot: number, count: number): void {
    const before = this.#before[slot]!
    const after = this.#after[slot]!
    if (before === NONE) this.#firsts[count] = after
    else this.#after[before] = after
    if (after !== NONE) this.#before[after] = before
  }

  #insert(value: number, smaller: number, larger: number): number {
    const count = this.#free
    this.#free = this.#larger[count]!
    this.#values[count] = value
    this.#firsts[count] = NONE
    this.#link(smaller, count)
    this.#larger[count] = larger
    if (larger !== NONE) this.#smaller[larger] = count
    return count
  }

  #drop(count: number): void {
    const larger = this.#larger[count]!
    this.#link(this.#smaller[count]!, larger)
    this.#larger[count] = this.#free
    this.#free = count
  }

  #link(smaller: number, larger: number): void {
    if (smaller === NONE) this.#least = larger
    else this.#larger[smaller] = larger
    if (larger !== NONE) this.#smaller[larger] = smaller
  }
}
