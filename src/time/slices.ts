/** How long other work may block a thread that serves or supervises. */
const SLICE_MS = 2

export interface SlicedWork<Result> {
  readonly steps: Generator<void, Result>
  /** Called after each slice with the time that it took. */
  readonly onSlice?: (tookMs: number) => void
  readonly onDone: (result: Result) => void
  readonly onError: (error: unknown) => void
}

/**
 * Runs all steps and callbacks in event loop turns of their own, never as continuations of a promise: if a thread is terminated in the middle
 * of such a continuation, Node 20 goes on to parse HTTP with a JavaScript engine that is shutting down, and aborts the whole process.
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

/** Does the same as `runInSlices`, and returns a promise. */
export function inSlices<Result>(steps: Generator<void, Result>): Promise<Result> {
  return new Promise((resolve, reject) => runInSlices({ steps, onDone: resolve, onError: reject }))
}

/** Work for `WorkSlices`. */
export interface WorkInSteps {
  /** Does a small part of the work, far less than a slice. Returns whether there is more to do. */
  step(): boolean
}

/**
 * Shares one slice in each turn of the event loop among all work that is added, where `runInSlices` has a slice for each. Pieces of work take
 * turns, step by step; a small one is done at once if this turn's slice has time left.
 */
export class WorkSlices {
  readonly #nowMs: () => number
  readonly #queue: WorkInSteps[] = []
  #spentMs = 0
  #isTurnAsked = false

  constructor(nowMs = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Does a piece of work that takes far less than a slice, if nothing waits and this turn's slice has time left. Returns whether it was done. */
  doNow(work: () => void): boolean {
    if (this.#queue.length > 0 || this.#spentMs >= SLICE_MS) return false
    const startMs = this.#nowMs()
    work()
    this.#spentMs += this.#nowMs() - startMs
    if (this.#spentMs >= SLICE_MS) this.#askForTurn()
    return true
  }

  add(work: WorkInSteps): void {
    this.#queue.push(work)
    if (this.#queue.length === 1 && this.#spentMs < SLICE_MS) this.#work()
    else this.#askForTurn()
  }

  #work(): void {
    const startMs = this.#nowMs()
    const spentBeforeMs = this.#spentMs
    do {
      const work = this.#queue.shift()!
      if (work.step()) this.#queue.push(work)
      this.#spentMs = spentBeforeMs + this.#nowMs() - startMs
    } while (this.#queue.length > 0 && this.#spentMs < SLICE_MS)
    // What is spent in several turns may count as spent in one, which is never too little, and saves a lone piece of work a turn of its own.
    if (this.#spentMs >= SLICE_MS) this.#askForTurn()
  }

  #askForTurn(): void {
    if (this.#isTurnAsked) return
    this.#isTurnAsked = true
    setImmediate(() => {
      this.#isTurnAsked = false
      this.#spentMs = 0
      if (this.#queue.length > 0) this.#work()
    })
  }
}

/** No piece of work takes longer than this. If one seems to, the whole machine was suspended, which must not count as work. */
const LONGEST_WORK_MS = 100

/** Bounds how much of a thread's time some work may take: once it has used more than its share, it waits until the share has grown back. */
export class TimeShare {
  readonly #share: number
  readonly #burstMs: number
  #leftMs: number
  #atMs: number

  /** Allows `share` of all time, and `burstMs` of work at once without a wait. */
  constructor(share: number, burstMs: number, nowMs: number) {
    this.#share = share
    this.#burstMs = burstMs
    this.#leftMs = burstMs
    this.#atMs = nowMs
  }

  /** Takes what work took by the clock. */
  spend(workMs: number, nowMs: number): void {
    this.take(Math.min(workMs, LONGEST_WORK_MS), nowMs)
  }

  /** Takes what work must have taken, by something else than the clock. */
  take(workMs: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#leftMs -= workMs
  }

  /** Returns how long to wait before the next piece of work; 0 if it may begin now, however long it takes. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs)
    return this.#leftMs >= 0 ? 0 : Math.ceil(-this.#leftMs / this.#share)
  }

  #refill(nowMs: number): void {
    this.#leftMs = Math.min(this.#burstMs, this.#leftMs + (nowMs - this.#atMs) * this.#share)
    this.#atMs = nowMs
  }
}
