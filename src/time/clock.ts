/** Both kinds of time. Buckets run on `nowMs`; the wall clock is for calendar windows and for times that people read. */
export interface Clock {
  /** Monotonic time in milliseconds, the same for all threads of the process. */
  nowMs(): number
  /** Unix time in milliseconds. */
  wallMs(): number
}

// Each thread's performance.now() starts at its own zero; hrtime has one zero for all of them. A pause between the two
// readings makes the difference too small, so the largest of a few is the true one.
const offsetMs = Math.max(...Array.from({ length: 8 }, () => Number(process.hrtime.bigint()) / 1e6 - performance.now()))

export const systemClock: Clock = {
  nowMs: () => performance.now() + offsetMs,
  wallMs: () => Date.now(),
}

/** How long one reading of the wall clock is reused. */
const READING_MS = 1

/** Unix time for callers that have just read the other clock: reading both would add several percent to the time of each decision. */
export class WallTime {
  readonly #clock: Clock
  #readAtMs = Number.NEGATIVE_INFINITY
  #wallMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  at(nowMs: number): number {
    const ageMs = nowMs - this.#readAtMs
    if (ageMs >= 0 && ageMs < READING_MS) return this.#wallMs + ageMs
    this.#readAtMs = nowMs
    this.#wallMs = this.#clock.wallMs()
    return this.#wallMs
  }
}

/** Returns how long to wait after so many failures in a row (1, 2, …). The wait doubles with each failure, up to the longest. */
export function backoffMs(firstMs: number, longestMs: number, failures: number): number {
  return Math.min(firstMs * 2 ** (failures - 1), longestMs)
}

/** Counts the failures itself. Each wait is shortened at random by up to a quarter, so that a fleet does not retry in step. */
export class Backoff {
  readonly #firstMs: number
  readonly #longestMs: number
  #failures = 0

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs
    this.#longestMs = longestMs
  }

  nextMs(): number {
    return backoffMs(this.#firstMs, this.#longestMs, ++this.#failures) * (1 - Math.random() / 4)
  }

  reset(): void {
    this.#failures = 0
  }
}
