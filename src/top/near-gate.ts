const PERIOD_MS = 100
/** Counters that are noted in a period. */
const MAX_NOTED = 100
/** How much larger the bound gets by a period in which few were noted. */
const GROWTH = 1.25

/** Chooses the counters to note by the share that is left, so that the work is bounded: where too many are noted, only smaller shares are. */
export class NearGate {
  /** Counters with a smaller share left are noted. */
  below = 1
  #bound = 1
  #left = MAX_NOTED
  #endMs = Number.NEGATIVE_INFINITY

  /** Begins another period when it is time. */
  turnTo(nowMs: number): void {
    if (nowMs < this.#endMs) return
    if (this.#left === 0) this.#bound /= 2
    else if (this.#left > MAX_NOTED / 2) this.#bound = Math.min(1, this.#bound * GROWTH ** ((nowMs - this.#endMs) / PERIOD_MS + 1))
    this.below = this.#bound
    this.#left = MAX_NOTED
    this.#endMs = nowMs + PERIOD_MS
  }

  /** One is noted. */
  count(): void {
    if (--this.#left === 0) this.below = Number.NEGATIVE_INFINITY
  }
}
