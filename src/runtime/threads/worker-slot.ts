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
