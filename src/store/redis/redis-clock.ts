/** By so much two clocks may drift apart between two readings. */
const DRIFT_MS = 0.1

/**
 * The clock of Redis, seen from the monotonic clock of this process. A reply says what time it was at some moment between the call and
 * the reply, and the next ones narrow it down. A reply that contradicts what is known means that a clock was set: then it alone counts.
 */
export class RedisClock {
  #leastMs = Number.NEGATIVE_INFINITY
  #mostMs = Number.POSITIVE_INFINITY

  get isKnown(): boolean {
    return this.#mostMs < Number.POSITIVE_INFINITY
  }

  /** A call that was sent and replied to at these times of the monotonic clock says that it was `wallMs`. */
  note(sentMs: number, repliedMs: number, wallMs: number): void {
    const [least, most] = [wallMs - repliedMs, wallMs - sentMs]
    const [narrowLeast, narrowMost] = [Math.max(least, this.#leastMs - DRIFT_MS), Math.min(most, this.#mostMs + DRIFT_MS)]
    const isContradiction = narrowLeast > narrowMost
    this.#leastMs = isContradiction ? least : narrowLeast
    this.#mostMs = isContradiction ? most : narrowMost
  }

  /** How far it is ahead of the monotonic clock. */
  get aheadMs(): number {
    return (this.#leastMs + this.#mostMs) / 2
  }
}
