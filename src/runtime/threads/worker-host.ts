import type { CallResult, WorkerCallName, WorkerCalls } from '../../control/control-calls.ts'
import type { FromWorker, ToWorker } from '../../control/thread-messages.ts'
import { OpenWorkerCalls } from '../../control/worker-calls.ts'
import type { ListenAddress, ListenTarget } from '../../listen/listeners.ts'
import { backoffMs } from '../../time/clock.ts'
import type { SharedMemory } from '../shared-memory.ts'

/** Where workers run, and how they come to listen on one address together. */
export interface WorkerHost {
  /** Binds the address for so many workers; nothing is accepted yet. One that somebody listens on is refused. */
  bind(address: ListenAddress, workers: number): Promise<SharedSocket>
  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink
}

/** A bound socket that several workers accept connections on. */
export interface SharedSocket {
  /** What one more worker may listen on. */
  share(): Promise<ListenTarget>
  /** A share that nobody listens on. */
  giveBack(share: ListenTarget): void
  /** Every worker listens. */
  noteListening(): void
  /** From now on the system refuses connections as soon as no worker listens. */
  close(): void
}

export interface WorkerLink {
  send(message: ToWorker): void
  /** Ends it whatever it does. */
  terminate(): void
}

export interface WorkerListener {
  onMessage(message: FromWorker): void
  /** It has ended, and nothing of it runs any more. `error`: why, where the reason is known. */
  onExit(error: Error | undefined): void
}

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

/** What a worker died of, as the log and the metrics name it. */
export type Cause = 'exception' | 'out_of_memory' | 'exit'

export const CAUSES: readonly Cause[] = ['exception', 'out_of_memory', 'exit']

export const CAUSE_WORDS: Readonly<Record<Cause, string>> = {
  exception: 'a worker broke; the others go on',
  out_of_memory: 'a worker ran out of memory; the others go on',
  exit: 'a worker ended; the others go on',
}

export function causeOf(error: Error | undefined): Cause {
  if (error === undefined) return 'exit'
  return (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out_of_memory' : 'exception'
}

const SHORT_LIFE_MS = 1000
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/** Lives in a row that were too short to be worth replacing at once. */
export class ShortLives {
  #count = 0

  /** Returns how long to wait before the next one starts. */
  note(livedMs: number): number {
    this.#count = livedMs < SHORT_LIFE_MS ? this.#count + 1 : 0
    return this.#count === 0 ? 0 : backoffMs(FIRST_PAUSE_MS, MAX_PAUSE_MS, this.#count)
  }
}
