import type { CallResult, WorkerCallName, WorkerCalls } from '../../control/control-calls.ts'
import type { FromWorker, ToWorker } from '../../control/thread-messages.ts'
import { OpenWorkerCalls } from '../../control/worker-calls.ts'
import type { ListenAddress, ListenTarget } from '../../listen/listeners.ts'
import { backoffMs } from '../../time/clock.ts'
import type { SharedMemory } from '../shared-memory.ts'

/** Runs workers and lets them listen together on one address. */
export interface WorkerHost {
  /** Binds the address for so many workers, without accepting yet. Rejects if another process listens on it. */
  bind(address: ListenAddress, workers: number): Promise<SharedSocket>
  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink
}

/** A bound socket that several workers accept connections on. */
export interface SharedSocket {
  /** Returns what one more worker may listen on. */
  share(): Promise<ListenTarget>
  /** Takes back a share that nobody listens on. */
  giveBack(share: ListenTarget): void
  /** To be called when every worker listens. */
  noteListening(): void
  /** From now on, the system refuses connections as soon as no worker listens. */
  close(): void
}

export interface WorkerLink {
  send(message: ToWorker): void
  /** Ends the worker, whatever it is doing. */
  terminate(): void
}

export interface WorkerListener {
  onMessage(message: FromWorker): void
  /** The worker has ended and runs no more code. `error` is the reason, if it is known. */
  onExit(error: Error | undefined): void
}

/** One of the `EDGE_WORKERS` workers. Its thread is replaced when it dies; the slot, with the worker's number, stays. */
export class WorkerSlot {
  /** Number of the worker, from 1. */
  readonly worker: number
  readonly shortLives = new ShortLives()
  link: WorkerLink | undefined
  startedAtMs = 0
  /** `unfit` means that the worker cannot serve and is being ended. */
  state: 'starting' | 'up' | 'ready' | 'unfit' | 'dead' | 'closed' = 'starting'
  /** Whether its thread replaces a dead one and does not serve yet. */
  isBeingReplaced = false

  constructor(worker: number) {
    this.worker = worker
  }
}

/** All workers of the service, as recipients of messages and calls. Slots exist before their threads run and after these have ended. */
export class WorkerSlots {
  readonly all: readonly WorkerSlot[]
  readonly #calls = new OpenWorkerCalls()

  constructor(workers: number) {
    this.all = Array.from({ length: workers }, (_, i) => new WorkerSlot(i + 1))
  }

  get count(): number {
    return this.all.length
  }

  /** Numbers of the workers whose threads run. */
  get living(): number[] {
    return this.all.filter(({ link }) => link !== undefined).map(({ worker }) => worker)
  }

  of(worker: number): WorkerSlot {
    return this.all[worker - 1]!
  }

  /** Does nothing if the worker's thread does not run. */
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

  /** The worker's thread has ended and will answer nothing more. */
  leaveCalls(worker: number): void {
    this.#calls.leave(worker)
  }
}

/** Cause of a worker's death, as the log and the metrics name it. */
export type Cause = 'exception' | 'out_of_memory' | 'exit'

export const CAUSES: readonly Cause[] = ['exception', 'out_of_memory', 'exit']

export const CAUSE_WORDS: Readonly<Record<Cause, string>> = {
  exception: 'a worker failed; the others continue',
  out_of_memory: 'a worker ran out of memory; the others continue',
  exit: 'a worker exited; the others continue',
}

export function causeOf(error: Error | undefined): Cause {
  if (error === undefined) return 'exit'
  return (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out_of_memory' : 'exception'
}

const SHORT_LIFE_MS = 1000
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/** Counts consecutive lives that were too short for a replacement without delay. */
export class ShortLives {
  #count = 0

  /** Returns how long to wait before the next thread starts. */
  note(livedMs: number): number {
    this.#count = livedMs < SHORT_LIFE_MS ? this.#count + 1 : 0
    return this.#count === 0 ? 0 : backoffMs(FIRST_PAUSE_MS, MAX_PAUSE_MS, this.#count)
  }
}
