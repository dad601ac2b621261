/** Work that would block everything else if it were done in one piece. */
export interface BodyWork {
  /** Does a small part of the work, far less than a slice. Returns whether there is more to do. */
  step(): boolean
}

/** Time that all sliced work together may take in one turn of the event loop. */
const SLICE_MS = 2

/**
 * Does work in slices: at most one slice in each turn of the event loop, however many pieces of work there are. They take turns, step by step; a
 * small piece is done at once if this turn's slice has time left.
 */
export class WorkSlices {
  readonly #nowMs: () => number
  readonly #queue: BodyWork[] = []
  #spentMs = 0
  #isTurnAsked = false

  constructor(nowMs = () => performance.now()) {
    this.#nowMs = nowMs
  }

  add(work: BodyWork): void {
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
    this.#askForTurn()
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
