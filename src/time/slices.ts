/** How long other work may block a thread that serves or supervises. */
const SLICE_MS = 2

export interface SlicedWork<Result> {
  readonly steps: Generator<void, Result>
  /** Gets how long each slice took. */
  readonly onSlice?: (tookMs: number) => void
  readonly onDone: (result: Result) => void
  readonly onError: (error: unknown) => void
}

/**
 * Runs all steps, the callbacks included, in turns of the event loop of their own, and never as continuations of a promise: where a thread
 * is terminated in the middle of such a continuation, Node 20 goes on to parse HTTP with an engine that is shutting down, and aborts the
 * whole process.
 */
export function runInSlices<Result>({ steps, onSlice, onDone, onError }: SlicedWork<Result>): void {
  const runSlice = (): void => {
    const startMs = performance.now()
    try {
      let step: IteratorResult<void, Result>
      do step = steps.next()
      while (!step.done && performance.now() < startMs + SLICE_MS)
      onSlice?.(performance.now() - startMs)
      if (step.done) onDone(step.value)
      else setImmediate(runSlice)
    } catch (error) {
      onError(error)
    }
  }
  setImmediate(runSlice)
}

/** The same for whoever wants a promise. */
export function inSlices<Result>(steps: Generator<void, Result>): Promise<Result> {
  return new Promise((resolve, reject) => runInSlices({ steps, onDone: resolve, onError: reject }))
}

/** No piece of work takes longer. A thread that seems to have worked for longer stood still with its machine, which is nobody's work. */
const LONGEST_WORK_MS = 100

/** Bounds how much of a thread's time something takes: whoever has used up more than the share waits until it has grown back. */
export class TimeShare {
  readonly #share: number
  readonly #burstMs: number
  #leftMs: number
  #atMs: number

  /** `share` of all time, and `burstMs` of work at a time without a wait. */
  constructor(share: number, burstMs: number, nowMs: number) {
    this.#share = share
    this.#burstMs = burstMs
    this.#leftMs = burstMs
    this.#atMs = nowMs
  }

  spend(workMs: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#leftMs -= Math.min(workMs, LONGEST_WORK_MS)
  }

  /** How long to wait before the next piece of work. 0: it may begin now, however long it takes. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs)
    return this.#leftMs >= 0 ? 0 : Math.ceil(-this.#leftMs / this.#share)
  }

  #refill(nowMs: number): void {
    this.#leftMs = Math.min(this.#burstMs, this.#leftMs + (nowMs - this.#atMs) * this.#share)
    this.#atMs = nowMs
  }
}
