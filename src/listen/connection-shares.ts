const LANE_WORDS = 16
const WAIT_MS = 1
/** So many waits a second at most: all else in the thread waits too, and where connections come and go, shares may never even out. */
const MAX_WAITS = 50
/** So much more than the others have is tolerated. */
const SLACK = 0.1

/**
 * How many connections each worker has, in shared memory. The system wakes whom it likes: left alone, one worker may take
 * all of them. One that has more than its share waits a moment before it accepts the next, and somebody else will.
 */
export class ConnectionShares {
  readonly #words: Int32Array
  readonly #own: number
  readonly #workerCount: number
  #waitsLeft = MAX_WAITS
  #refilledAtMs = performance.now()

  /** Workers count from 1. */
  constructor(buffer: SharedArrayBuffer, worker: number) {
    this.#words = new Int32Array(buffer)
    this.#own = worker * LANE_WORDS
    this.#workerCount = this.#words.length / LANE_WORDS - 1
  }

  opened(): void {
    const own = Atomics.add(this.#words, this.#own, 1) + 1
    let total = 0
    for (let worker = 1; worker <= this.#workerCount; worker++) total += Atomics.load(this.#words, worker * LANE_WORDS)
    if (own > (total / this.#workerCount) * (1 + SLACK) + 1 && this.#mayWait()) {
      // Nobody ever writes the word behind ours.
      Atomics.wait(this.#words, this.#own + 1, 0, WAIT_MS)
    }
  }

  #mayWait(): boolean {
    const nowMs = performance.now()
    this.#waitsLeft = Math.min(MAX_WAITS, this.#waitsLeft + ((nowMs - this.#refilledAtMs) / 1000) * MAX_WAITS)
    this.#refilledAtMs = nowMs
    if (this.#waitsLeft < 1) return false
    this.#waitsLeft--
    return true
  }

  closed(): void {
    Atomics.sub(this.#words, this.#own, 1)
  }

  *all(): Generator<readonly [worker: number, count: number]> {
    for (let worker = 1; worker <= this.#workerCount; worker++) yield [worker, Atomics.load(this.#words, worker * LANE_WORDS)]
  }

  /** The connections of a dead worker are gone with it. */
  forgetWorker(worker: number): void {
    Atomics.store(this.#words, worker * LANE_WORDS, 0)
  }
}

export function newSharesBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * LANE_WORDS * 4)
}
