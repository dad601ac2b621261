import type { Clock } from '../../clock.ts'

/** Unix time with fractions of a millisecond, which the wall clock does not have. */
export class SpanClock {
  readonly #clock: Clock
  /** From the monotonic clock to Unix time. */
  #offsetMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The wall clock drops fractions, so the largest difference within a millisecond is the true one. A smaller one was set back. */
  nowMs(): number {
    const nowMs = this.#clock.nowMs()
    const offsetMs = this.#clock.wallMs() - nowMs
    if (offsetMs > this.#offsetMs || offsetMs <= this.#offsetMs - 1) this.#offsetMs = offsetMs
    return nowMs + this.#offsetMs
  }
}
