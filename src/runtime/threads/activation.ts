import type { ToWorker } from '../../control/thread-messages.ts'

type Prepare = ToWorker & { readonly type: 'prepare' }

type BundleContent = Omit<Prepare, 'type' | 'generation'>

/** A worker that has not compiled a bundle within this time is considered stuck and is terminated. */
const STUCK_MS = 30_000
/** A bundle is refused once this many workers have died while compiling it; one or two deaths may have another cause. */
const MAX_DEATHS_OF_PLAN = 3

/**
 * Makes a bundle active in all workers at once: each prepares it and reports, then its generation is stored in a shared integer, which every
 * decision reads. Only one bundle is prepared at a time.
 */
export class Activation {
  readonly #word: Int32Array
  readonly #onStuck: (worker: number) => void
  #generation = 0
  #holding: Prepare | undefined
  #next: Next | undefined

  constructor(word: Int32Array, onStuck: (worker: number) => void) {
    this.#word = word
    this.#onStuck = onStuck
  }

  begin(content: BundleContent, workers: readonly number[], send: (message: Prepare) => void): Promise<void> {
    const message: Prepare = { type: 'prepare', generation: ++this.#generation, ...content }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#endStuck(), STUCK_MS)
      timer.unref()
      this.#next = { message, missing: new Set(workers), deaths: 0, timer, resolve, reject }
      send(message)
      this.#turnIfReady()
    })
  }

  /** Returns what a worker that starts now has to prepare. */
  join(worker: number): Prepare[] {
    this.#next?.missing.add(worker)
    return [this.#holding, this.#next?.message].filter((message) => message !== undefined)
  }

  /** A worker has ended. If it had not reported, its replacement still has to, because the bundle may be what ended it. */
  leave(worker: number): void {
    const next = this.#next
    if (next === undefined || !next.missing.has(worker)) return
    if (++next.deaths === MAX_DEATHS_OF_PLAN) this.#giveUp(next, 'workers died while compiling it')
  }

  /** Notes a worker's report. Returns false if the worker cannot serve because it lacks the active plan. */
  note(worker: number, generation: number, problem: string | undefined): boolean {
    if (problem !== undefined && generation === this.#holding?.generation) return false
    const next = this.#next
    if (next === undefined || next.message.generation !== generation) return true
    next.missing.delete(worker)
    if (problem === undefined) this.#turnIfReady()
    else this.#giveUp(next, problem)
    return true
  }

  #giveUp(next: Next, problem: string): void {
    this.#next = undefined
    clearTimeout(next.timer)
    next.reject(new Error(problem))
  }

  #turnIfReady(): void {
    const next = this.#next
    if (next === undefined || next.missing.size > 0) return
    clearTimeout(next.timer)
    this.#next = undefined
    this.#holding = next.message
    Atomics.store(this.#word, 0, next.message.generation)
    next.resolve()
  }

  #endStuck(): void {
    this.#next?.timer.refresh()
    for (const worker of this.#next?.missing ?? []) this.#onStuck(worker)
  }
}

interface Next {
  readonly message: Prepare
  /** Workers that have not reported yet. */
  readonly missing: Set<number>
  /** Deaths of workers that had not reported. */
  deaths: number
  readonly timer: NodeJS.Timeout
  resolve(): void
  reject(error: Error): void
}

/** A start fails at this many deaths. It is above MAX_DEATHS_OF_PLAN, so that a bundle that crashes workers is refused first. */
const MAX_DEATHS_AT_START = 10

/** Decides whether a start fails: all first workers must come up, and few may die before every listener is open. */
export class FirstStart {
  /** Resolves when all first workers are up; rejects when `failed` does. */
  readonly up: Promise<void>
  /** Rejects when the start fails; never resolves. */
  readonly failed: Promise<never>
  #isUp = false
  #isOver = false
  #deaths = 0
  #noteUp!: () => void
  #fail!: (error: Error) => void

  constructor() {
    this.failed = new Promise((_, reject) => {
      this.#fail = reject
    })
    this.failed.catch(() => {}) // a worker may die before anybody waits
    this.up = Promise.race([
      this.failed,
      new Promise<void>((resolve) => {
        this.#noteUp = resolve
      }),
    ])
    this.up.catch(() => {})
  }

  noteUp(): void {
    this.#isUp = true
    this.#noteUp()
  }

  /** Every listener is open, so the start can no longer fail. */
  noteOpen(): void {
    this.#isOver = true
  }

  /** Returns whether the dead worker may be replaced. */
  noteDeath(error: Error): boolean {
    if (this.#isOver || (this.#isUp && ++this.#deaths < MAX_DEATHS_AT_START)) return true
    this.#fail(error)
    return false
  }
}
