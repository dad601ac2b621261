import type { ToWorker } from '../../control/thread-messages.ts'

type Prepare = ToWorker & { readonly type: 'prepare' }

type BundleContent = Omit<Prepare, 'type' | 'generation'>

/** One that has not compiled a bundle by then does nothing else either. */
const STUCK_MS = 30_000
/** One or two may have died of something else. */
const MAX_DEATHS_OF_PLAN = 3

/**
 * How a bundle comes to hold in all workers as one: each makes it ready and reports, then one shared word is turned,
 * which every decision reads. One bundle at a time.
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

  /** What a worker that starts now has to make ready. */
  join(worker: number): Prepare[] {
    this.#next?.missing.add(worker)
    return [this.#holding, this.#next?.message].filter((message) => message !== undefined)
  }

  /** A worker is gone. If it has not reported, whoever takes its place has to, for it may be the bundle that ended it. */
  leave(worker: number): void {
    const next = this.#next
    if (next === undefined || !next.missing.has(worker)) return
    if (++next.deaths === MAX_DEATHS_OF_PLAN) this.#giveUp(next, 'workers end while they compile it')
  }

  /** A worker reports. Returns false when it cannot serve: it lacks the plan that holds. */
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
  /** Of workers that had not reported. */
  deaths: number
  readonly timer: NodeJS.Timeout
  resolve(): void
  reject(error: Error): void
}

/** So many workers may die before the service is open: a bundle that ends those who compile it is refused before that. */
const MAX_DEATHS_AT_START = 10

/** The start: the first workers come up, all of them, and stay alive until every listener is open, or there is no service. */
export class FirstStart {
  /** Rejects with `failed`. */
  readonly up: Promise<void>
  /** Never resolves. */
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

  /** Every listener is open. */
  noteOpen(): void {
    this.#isOver = true
  }

  /** Returns whether it may be replaced. */
  noteDeath(error: Error): boolean {
    if (this.#isOver || (this.#isUp && ++this.#deaths < MAX_DEATHS_AT_START)) return true
    this.#fail(error)
    return false
  }
}
