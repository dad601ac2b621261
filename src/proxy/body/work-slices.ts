/** Work that would stop everybody else if it were done in one piece. */
export interface BodyWork {
  /** Does a little of it, far less than a slice. Returns whether there is more to do. */
  step(): boolean
}

/** How long one turn of the event loop may be spent on all sliced work together. */
const SLICE_MS = 2

/**
 * Does work in slices: of each turn of the event loop at most one slice, however many pieces of work there are. They take turns,
 * step by step, and what is small is done at once while this turn's slice lasts.
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
