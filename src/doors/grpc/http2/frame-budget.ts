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

  /** Returns false when there is none left. */
  take(nowMs: number): boolean {
    if (this.#left < 1) {
      this.add(((nowMs - this.#atMs) / 1000) * this.#perSecond)
      this.#atMs = nowMs
      if (this.#left < 1) return false
    }
    this.#left--
    return true
  }

  add(count: number): void {
    this.#left = Math.min(this.#burst, this.#left + count)
  }
}
