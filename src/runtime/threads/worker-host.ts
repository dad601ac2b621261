import type { ListenOn } from '../../listen/http-listener.ts'
import type { SharedMemory } from '../shared-memory.ts'
import type { FromWorker, ToWorker } from './messages.ts'

/** Where workers live, and how they come to a port together. */
export interface WorkerHost {
  /** Binds the port for so many workers; nothing is accepted yet. One that somebody listens on is refused. */
  openPort(port: number, host: string | undefined, workers: number): Promise<SharedPort>
  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink
}

export interface SharedPort {
  /** What one more worker may listen on. */
  share(): Promise<ListenOn>
  /** A share that nobody listens on. */
  giveBack(share: ListenOn): void
  /** From when on the system refuses connections, as soon as no worker listens any more. */
  close(): void
}

export interface WorkerLink {
  tell(message: ToWorker): void
  /** Ends it whatever it does. */
  terminate(): void
}

export interface WorkerListener {
  onMessage(message: FromWorker): void
  /** It is gone, and nothing of it runs any more. `error`: why, where there is a reason to tell. */
  onExit(error: Error | undefined): void
}
