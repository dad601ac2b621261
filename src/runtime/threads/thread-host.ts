import { type ResourceLimits, Worker as Thread } from 'node:worker_threads'
import type { ListenAddress } from '../../listen/listeners.ts'
import type { SharedMemory } from '../shared-memory.ts'
import { DescriptorPort } from './descriptor-port.ts'
import type { WorkerHost, WorkerLink, WorkerListener } from './worker-host.ts'

/** The raw settings, from which the configuration is read. */
export interface Settings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly flags: Readonly<Record<string, string | undefined>>
}

export interface ThreadData {
  /** Each thread reads its configuration from these again, because the parsed configuration cannot be cloned to another thread. */
  readonly settings: Settings
  readonly memory: SharedMemory
  /** Whether the last log line was cut off, shared because all threads write to one descriptor. */
  readonly partialLine: SharedArrayBuffer
  readonly worker: number
}

const ENTRY = new URL('./worker-thread.js', import.meta.url)

/** Runs each worker as a thread of this process. */
export class ThreadHost implements WorkerHost {
  readonly #settings: Settings
  readonly #partialLine: SharedArrayBuffer
  readonly #resourceLimits: ResourceLimits

  /** `maxHeapMib` bounds the heap of each thread. */
  constructor(settings: Settings, partialLine: SharedArrayBuffer, maxHeapMib?: number) {
    this.#settings = settings
    this.#partialLine = partialLine
    this.#resourceLimits = maxHeapMib === undefined ? {} : { maxOldGenerationSizeMb: maxHeapMib }
  }

  bind(address: ListenAddress, workers: number): Promise<DescriptorPort> {
    return DescriptorPort.open(address, workers)
  }

  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink {
    const workerData: ThreadData = { settings: this.#settings, memory, partialLine: this.#partialLine, worker }
    const thread = new Thread(ENTRY, { workerData, name: `worker ${worker}`, resourceLimits: this.#resourceLimits })
    let error: Error | undefined
    thread.on('error', (thrown: Error) => {
      error = thrown
    })
    thread.on('message', (message) => listener.onMessage(message))
    thread.on('exit', () => listener.onExit(error))
    return {
      send: (message) => thread.postMessage(message),
      terminate: () => void thread.terminate(),
    }
  }
}
