import type { ListenerName, ToWorker } from './messages.ts'
import type { SharedPort } from './worker-host.ts'

export type ListenMessage = ToWorker & { readonly type: 'listen' }

interface SharedListener {
  readonly port: SharedPort
  /** Those that accept on it. */
  readonly workers: Set<number>
  /** Until all of the first workers accept, as they must. */
  opening: Opening | undefined
}

interface Opening {
  resolve(port: number): void
  reject(error: Error): void
}

/** The ports that all workers listen on, by name, and which of them do already. */
export class SharedListeners {
  readonly #workerCount: number
  readonly #listeners = new Map<ListenerName, SharedListener>()

  constructor(workerCount: number) {
    this.#workerCount = workerCount
  }

  get names(): readonly ListenerName[] {
    return [...this.#listeners.keys()]
  }

  /** Done when all workers accept on it; tells the port's number, which the system may have chosen. */
  open(name: ListenerName, port: SharedPort): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#listeners.set(name, { port, workers: new Set(), opening: { resolve, reject } })
    })
  }

  /** What to tell a worker that shall listen. */
  async share(name: ListenerName): Promise<ListenMessage> {
    return { type: 'listen', listener: name, on: await this.#listeners.get(name)!.port.share() }
  }

  /** It was not told to anybody. */
  giveBack({ listener, on }: ListenMessage): void {
    this.#listeners.get(listener)!.port.giveBack(on)
  }

  noteListening(name: ListenerName, worker: number, port: number): void {
    const listener = this.#listeners.get(name)!
    listener.workers.add(worker)
    if (listener.workers.size < this.#workerCount) return
    listener.opening?.resolve(port)
    listener.opening = undefined
  }

  /** Whether this was the end of opening it. Later on, a worker alone has failed. */
  failOpening(name: ListenerName, error: Error): boolean {
    const { opening } = this.#listeners.get(name)!
    opening?.reject(error)
    return opening !== undefined
  }

  leave(worker: number): void {
    for (const { workers } of this.#listeners.values()) workers.delete(worker)
  }

  count(name: ListenerName): number {
    return this.#listeners.get(name)?.workers.size ?? 0
  }

  /** On every port, and the main one is among them. */
  hasAll(worker: number): boolean {
    return this.#listeners.has('main') && [...this.#listeners.values()].every(({ workers }) => workers.has(worker))
  }

  close(): void {
    for (const { port } of this.#listeners.values()) port.close()
  }
}
