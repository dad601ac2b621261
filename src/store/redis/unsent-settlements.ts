/** The most that are kept while Redis is unreachable. */
const CAPACITY = 10_000

/** Settlements known not to have reached Redis: they can be sent later without being done twice. */
export class UnsentSettlements<Settlement> {
  #kept: Settlement[] = []
  readonly #onLost: () => void

  /** `onLost` is called for each that exceeds the capacity. */
  constructor(onLost: () => void) {
    this.#onLost = onLost
  }

  add(settlement: Settlement): void {
    if (this.#kept.length < CAPACITY) this.#kept.push(settlement)
    else this.#onLost()
  }

  takeAll(): readonly Settlement[] {
    const kept = this.#kept
    this.#kept = []
    return kept
  }
}
