import type { RowGroup } from './shared-counters.ts'

/** As many as are kept while Redis is away. */
const CAPACITY = 10_000

/** Settlements that are known not to have reached Redis: they can be sent later without being done twice. */
export class UnsentSettlements {
  #groups: RowGroup[] = []
  readonly #onLost: () => void

  /** `onLost` hears of each that finds no room. */
  constructor(onLost: () => void) {
    this.#onLost = onLost
  }

  add(group: RowGroup): void {
    if (this.#groups.length < CAPACITY) this.#groups.push(group)
    else this.#onLost()
  }

  takeAll(): readonly RowGroup[] {
    const groups = this.#groups
    this.#groups = []
    return groups
  }
}
