import type { Logger } from 'pino'
import type { ListenError, ToWorker } from '../../control/thread-messages.ts'
import { type ListenAddress, type ListenerName, listener, type OpeningPhase } from '../../listen/listeners.ts'
import type { SharedSocket, WorkerSlot } from './worker-host.ts'

/** The bound socket of each listener that is to be opened. */
export type BoundListeners = ReadonlyMap<ListenerName, SharedSocket>

export interface SharedListenersParts {
  readonly sockets: BoundListeners
  readonly workers: number
  readonly logger: Logger
  /** Waits before a retry. */
  readonly pause: (ms: number) => Promise<unknown>
}

interface SharedListener {
  readonly name: ListenerName
  readonly opens: OpeningPhase
  readonly socket: SharedSocket
  /** Numbers of the workers that accept on it. */
  readonly workers: Set<number>
  state: 'bound' | Opening | 'open'
}

/** Settles the wait until all first workers accept on the listener. */
interface Opening {
  resolve(address: ListenAddress): void
  reject(error: Error): void
}

type ListenMessage = ToWorker & { readonly type: 'listen' }

/** Pause before a share of a socket that could not be obtained is asked for again. */
const RETRY_MS = 5000

/** The listeners that all workers accept on, and which workers already do. */
export class SharedListeners {
  readonly #parts: SharedListenersParts
  readonly #listeners: ReadonlyMap<ListenerName, SharedListener>
  #isClosed = false

  constructor(parts: SharedListenersParts) {
    this.#parts = parts
    const list = Array.from(parts.sockets, ([name, socket]): [ListenerName, SharedListener] => {
      return [name, { name, opens: listener(name).opens, socket, workers: new Set(), state: 'bound' }]
    })
    this.#listeners = new Map(list)
  }

  /** Resolves when all workers accept on every listener of this phase. Returns the addresses, since the system may have chosen a port. */
  async open(phase: OpeningPhase, slots: readonly WorkerSlot[]): Promise<Map<ListenerName, ListenAddress>> {
    const opening = this.#of(phase).map(async (shared): Promise<[ListenerName, ListenAddress]> => {
      const opened = new Promise<ListenAddress>((resolve, reject) => {
        shared.state = { resolve, reject }
      })
      for (const slot of slots) if (canListen(slot, phase)) void this.#listen(shared, slot)
      return [shared.name, await opened]
    })
    return new Map(await Promise.all(opening))
  }

  /** To be called when a worker is `up`, for listeners that open early, and when it is `ready`, for the others. */
  join(phase: OpeningPhase, slot: WorkerSlot): void {
    for (const shared of this.#of(phase)) if (shared.state !== 'bound') void this.#listen(shared, slot)
  }

  leave(worker: number): void {
    for (const { workers } of this.#listeners.values()) workers.delete(worker)
  }

  /** Returns whether the worker accepts on all listeners now. */
  noteListening(name: ListenerName, worker: number, address: ListenAddress): boolean {
    const shared = this.#listeners.get(name)!
    shared.workers.add(worker)
    if (typeof shared.state === 'object' && shared.workers.size === this.#parts.workers) {
      shared.socket.noteListening()
      shared.state.resolve(address)
      shared.state = 'open'
    }
    return [...this.#listeners.values()].every(({ workers }) => workers.has(worker))
  }

  noteFailure(name: ListenerName, { worker, link }: WorkerSlot, error: ListenError): void {
    if (this.#failOpening(this.#listeners.get(name)!, Object.assign(new Error(error.message), error))) return
    this.#parts.logger.error({ event: 'worker_cannot_listen', worker, error }, `worker ${worker} cannot listen`)
    link?.terminate()
  }

  /** How many workers accept on all listeners for requests. */
  get servingCount(): number {
    return Math.min(...this.#of('ready').map(({ workers }) => workers.size))
  }

  close(): void {
    this.#isClosed = true
    for (const { socket } of this.#listeners.values()) socket.close()
  }

  #of(phase: OpeningPhase): SharedListener[] {
    return [...this.#listeners.values()].filter(({ opens }) => opens === phase)
  }

  /** Hands a share of the socket only to a worker that still runs: one that ends before it takes the share would leave it open for ever. */
  async #listen(shared: SharedListener, slot: WorkerSlot): Promise<void> {
    const { link, worker } = slot
    const { logger, pause } = this.#parts
    try {
      const target = await shared.socket.share()
      const message: ListenMessage = { type: 'listen', listener: shared.name, target }
      if (link !== undefined && slot.link === link) link.send(message)
      else shared.socket.giveBack(target)
    } catch (error) {
      if (this.#failOpening(shared, error as Error) || this.#isClosed || slot.link !== link) return
      logger.error({ event: 'worker_not_replaced', worker, err: error }, 'a worker could not be replaced yet')
      await pause(RETRY_MS)
      if (slot.link === link) await this.#listen(shared, slot)
    }
  }

  /** Returns whether the listener was still opening, which fails the opening. After that, only the worker has failed. */
  #failOpening({ name, state }: SharedListener, error: Error): boolean {
    if (typeof state !== 'object') return false
    state.reject(Object.assign(error, { listener: name }))
    return true
  }
}

/** Listeners for operators open before the service is ready, for example while it still connects to Redis. */
function canListen({ state }: WorkerSlot, phase: OpeningPhase): boolean {
  return state === 'ready' || (state === 'up' && phase === 'early')
}
