/** Once this many ids were added, or were removed, since the last sort, all are sorted anew. */
const MAX_UNSORTED = 1000

/**
 * Ids as numbers, in rising order, for lists in pages. A million take 8 MB, and only once somebody has listed keys. Ids that are gone stay until the next sort;
 * whoever reads the list has to look them up anyway.
 */
export class SortedIds {
  #sorted: Float64Array | undefined
  #added: number[] = []
  #removed = 0

  add(id: number): void {
    if (this.#sorted === undefined) return
    if (this.#added.length < MAX_UNSORTED) this.#added.push(id)
    else this.#drop()
  }

  noteRemoved(): void {
    if (++this.#removed > MAX_UNSORTED) this.#drop()
  }

  /** Yields the ids after this one. `all` returns those that there are, in any order. */
  *after(id: number, all: () => Float64Array): Generator<number> {
    this.#sorted ??= all().sort()
    const added = this.#added.filter((each) => each > id).sort((a, b) => a - b)
    let next = 0
    for (let i = firstAfter(this.#sorted, id); i < this.#sorted.length; i++) {
      const sorted = this.#sorted[i]!
      while (next < added.length && added[next]! < sorted) yield added[next++]!
      // A key may have been forgotten and imported again.
      if (added[next] === sorted) next++
      yield sorted
    }
    yield* added.slice(next)
  }

  #drop(): void {
    this.#sorted = undefined
    this.#added = []
    this.#removed = 0
  }
}

function firstAfter(sorted: Float64Array, id: number): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (sorted[middle]! > id) high = middle
    else low = middle + 1
  }
  return low
}
