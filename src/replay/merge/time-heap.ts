export interface Timed {
  readonly timeMs: number
  /** Of two with the same time, the lower one comes first. */
  readonly order: number
}

/** A binary heap: the earliest item is at its root. */
export class TimeHeap<T extends Timed> {
  readonly #items: T[] = []

  get length(): number {
    return this.#items.length
  }

  get root(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.length
    items.push(item)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(item, items[parent]!)) break
      items[at] = items[parent]!
      at = parent
    }
    items[at] = item
  }

  removeRoot(): void {
    const last = this.#items.pop()!
    if (this.#items.length === 0) return
    this.#items[0] = last
    this.settleRoot()
  }

  /** To be called when the root's time is a later one. */
  settleRoot(): void {
    const items = this.#items
    const item = items[0]!
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= items.length) break
      if (child + 1 < items.length && isBefore(items[child + 1]!, items[child]!)) child++
      if (!isBefore(items[child]!, item)) break
      items[at] = items[child]!
      at = child
    }
    items[at] = item
  }
}

function isBefore(one: Timed, other: Timed): boolean {
  return one.timeMs < other.timeMs || (one.timeMs === other.timeMs && one.order < other.order)
}
