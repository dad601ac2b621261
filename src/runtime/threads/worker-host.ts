import type { ListenAddress, ListenTarget } from '../../listen/listen-address.ts'
import type { SharedMemory } from '../shared-memory.ts'
import type { FromWorker, ToWorker } from './messages.ts'

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
