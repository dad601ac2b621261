/** Too many values in one part, too many in total, or a value that contains itself. */
export type Excess = 'part' | 'total' | 'endless'

/**
 * Counts parsed values before they are processed. Aliases count each time they are used: they can expand a small file to a huge or
 * endless one.
 */
export class ValueCounter {
  readonly #limit: number
  #count = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Counts one part: a value and all values inside it. Memory: only the path to the current value. */
  add(root: unknown, partLimit = Number.POSITIVE_INFINITY): Excess | undefined {
    const before = this.#count
    const ancestors = new Set<unknown>()
    const open: { readonly parent: unknown; readonly items: readonly unknown[]; next: number }[] = []
    let value = root
    for (;;) {
      this.#count++
      if (this.#count - before > partLimit) return 'part'
      if (this.#count > this.#limit) return 'total'
      if (typeof value === 'object' && value !== null) {
        if (ancestors.has(value)) return 'endless'
        ancestors.add(value)
        open.push({ parent: value, items: Array.isArray(value) ? value : Object.values(value), next: 0 })
      }
      let level = open.at(-1)
      while (level !== undefined && level.next === level.items.length) {
        ancestors.delete(level.parent)
        open.pop()
        level = open.at(-1)
      }
      if (level === undefined) return undefined
      value = level.items[level.next++]
    }
  }
}
