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

/** All workers of the service: whoever has a message for one can send it, before and after its thread runs. */
export class WorkerSlots {
  readonly all: readonly WorkerSlot[]

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
}
