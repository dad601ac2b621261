/** Of one connection. */
export interface FrameBudgets {
  /** Frames that carry no call. */
  readonly controls: FrameBudget
  /** Calls that the client cancels, or makes us cancel, while they are under way. */
  readonly resets: FrameBudget
}

/** How much of something a peer may do: so much at once, and so much more each second. */
export class FrameBudget {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #atMs: number

  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
    this.#atMs = nowMs
  }

  /** Returns false when there is not so much left. */
  take(nowMs: number, count = 1): boolean {
    if (this.#left < count) {
      this.add(((nowMs - this.#atMs) / 1000) * this.#perSecond)
      this.#atMs = nowMs
      if (this.#left < count) return false
    }
    this.#left -= count
    return true
  }

  add(count: number): void {
    this.#left = Math.min(this.#burst, this.#left + count)
  }
}
