import type { CallResult, WorkerCallName, WorkerCalls } from './control-calls.ts'

/** A worker that takes longer than this to answer is left out. */
const TIMEOUT_MS = 1000

/** The main thread's side of the calls that it makes to all workers. */
export class OpenWorkerCalls {
  readonly #open = new Map<number, OpenCall>()
  #calls = 0

  /** Returns the answers of the workers that gave one in time. */
  askAll<Name extends WorkerCallName>(
    name: Name,
    ask: WorkerCalls[Name]['ask'],
    workers: readonly number[],
    send: (worker: number, call: number, name: Name, ask: unknown) => void,
  ): Promise<WorkerCalls[Name]['answer'][]> {
    const call = ++this.#calls
    return new Promise((resolve) => {
      const answers: unknown[] = []
      const end = (): void => {
        this.#open.delete(call)
        clearTimeout(timer)
        resolve(answers as WorkerCalls[Name]['answer'][])
      }
      // If this thread was blocked, answers may have arrived that it has not read yet.
      const timer = setTimeout(() => setImmediate(() => setImmediate(end)), TIMEOUT_MS).unref()
      this.#open.set(call, { missing: new Set(workers), answers, end })
      for (const worker of workers) send(worker, call, name, ask)
      if (workers.length === 0) end()
    })
  }

  note(worker: number, call: number, result: CallResult): void {
    const open = this.#open.get(call)
    if (open === undefined || !open.missing.delete(worker)) return
    if (result.ok) open.answers.push(result.answer)
    if (open.missing.size === 0) open.end()
  }

  /** A worker has ended, so its answers are no longer waited for. */
  leave(worker: number): void {
    for (const open of [...this.#open.values()]) if (open.missing.delete(worker) && open.missing.size === 0) open.end()
  }
}

interface OpenCall {
  readonly missing: Set<number>
  readonly answers: unknown[]
  end(): void
}
