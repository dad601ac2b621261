import type { ToWorker } from './messages.ts'

type Prepare = ToWorker & { readonly type: 'prepare' }

type BundleContent = Omit<Prepare, 'type' | 'generation'>

/** One that has not compiled a bundle by then does nothing else either. */
const STUCK_MS = 30_000
/** One or two may have died of something else. */
const MAX_DEATHS = 3

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
    if (++next.deaths === MAX_DEATHS) this.#giveUp(next, 'workers end while they compile it')
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
