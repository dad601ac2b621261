import type { CallResult, WorkerCallName, WorkerCalls } from '../control/control-calls.ts'
import { OpenWorkerCalls } from '../control/worker-calls.ts'
import type { ToWorker } from './messages.ts'
import { ShortLives } from './worker-death.ts'
import type { WorkerLink } from './worker-host.ts'

/** One of the `EDGE_WORKERS` workers. Its thread is replaced when it dies; the slot, with the worker's number, stays. */
export class WorkerSlot {
  /** From 1. */
  readonly worker: number
  readonly shortLives = new ShortLives()
  link: WorkerLink | undefined
  startedAtMs = 0
  /** `unfit`: cannot serve, and is being ended. */
  state: 'starting' | 'up' | 'ready' | 'unfit' | 'dead' | 'closed' = 'starting'
  /** Its thread replaces one that died, and does not serve yet. */
  isBeingReplaced = false

  constructor(worker: number) {
    this.worker = worker
  }
}

/** All workers of the service: whoever has a message or a question for them has it sent, before and after their threads run. */
export class WorkerSlots {
  readonly all: readonly WorkerSlot[]
  readonly #calls = new OpenWorkerCalls()

  constructor(workers: number) {
    this.all = Array.from({ length: workers }, (_, i) => new WorkerSlot(i + 1))
  }

  get count(): number {
    return this.all.length
  }

  /** The numbers of those whose thread runs. */
  get living(): number[] {
    return this.all.filter(({ link }) => link !== undefined).map(({ worker }) => worker)
  }

  of(worker: number): WorkerSlot {
    return this.all[worker - 1]!
  }

  /** Nothing is sent to a worker whose thread does not run. */
  send(worker: number, message: ToWorker): void {
    this.of(worker).link?.send(message)
  }

  sendAll(message: ToWorker): void {
    for (const { link } of this.all) link?.send(message)
  }

  /** Asks all workers. Those that do not answer in time are left out. */
  ask<Name extends WorkerCallName>(name: Name, ask: WorkerCalls[Name]['ask']): Promise<WorkerCalls[Name]['answer'][]> {
    return this.#calls.askAll(name, ask, this.living, (worker, call) => this.send(worker, { type: 'worker_call', call, name, ask }))
  }

  noteAnswer(worker: number, call: number, result: CallResult): void {
    this.#calls.note(worker, call, result)
  }

  /** The thread has ended, and answers nothing any more. */
  leaveCalls(worker: number): void {
    this.#calls.leave(worker)
  }
}
