import { MessageChannel, type MessagePort, Worker as Thread } from 'node:worker_threads'
import type { ToWorker } from '../../../src/control/thread-messages.ts'
import type { ListenAddress } from '../../../src/listen/listeners.ts'
import type { SharedMemory } from '../../../src/runtime/shared-memory.ts'
import type { Settings, ThreadData } from '../../../src/runtime/threads/thread-host.ts'
import type { SharedSocket, WorkerHost, WorkerLink, WorkerListener } from '../../../src/runtime/threads/worker-host.ts'
import { newPartialLineFlag } from '../../../src/telemetry/logger.ts'
import { openDescriptorPort } from './descriptor-port.ts'

const ENTRY = new URL('./mortal-worker.mjs', import.meta.url)

/** `hang`: does nothing more, until it is ended. */
export type End = 'throw' | 'reject' | 'exit' | 'exhaust' | 'hang'

interface Mortal {
  readonly thread: Thread
  readonly hand: MessagePort
}

/** Real threads in the test's process, each of which it can make die. */
export class MortalHost implements WorkerHost {
  /** How many threads were started for each worker. */
  readonly starts: number[] = []
  /** Which of them do not live to see their first message: by worker, and by how many were there before. */
  isStillborn: (worker: number, earlier: number) => boolean = () => false
  readonly #settings: Settings
  readonly #sent: [worker: number, type: ToWorker['type']][] = []
  readonly #mortals = new Map<number, Mortal>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  bind(address: ListenAddress, workers: number): Promise<SharedSocket> {
    return openDescriptorPort(address, workers)
  }

  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink {
    const earlier = this.starts[worker] ?? 0
    this.starts[worker] = earlier + 1
    const { port1: hand, port2 } = new MessageChannel()
    const isStillborn = this.isStillborn(worker, earlier)
    const workerData: ThreadData & object = {
      settings: this.#settings,
      memory,
      partialLine: newPartialLineFlag(),
      worker,
      hand: port2,
      isStillborn,
    } as ThreadData
    const resourceLimits = { maxOldGenerationSizeMb: 64 }
    const thread = new Thread(ENTRY, { workerData, transferList: [port2], resourceLimits, stderr: true })
    this.#mortals.set(worker, { thread, hand })
    let error: Error | undefined
    thread.on('error', (thrown: Error) => {
      error = thrown
    })
    thread.on('message', (message) => listener.onMessage(message))
    thread.on('exit', () => {
      hand.close()
      listener.onExit(error)
    })
    return {
      send: (message) => {
        this.#sent.push([worker, message.type])
        thread.postMessage(message)
      },
      terminate: () => void thread.terminate(),
    }
  }

  /** How often the threads of a worker were sent a message of this kind. */
  sent(worker: number, type: ToWorker['type']): number {
    return this.#sent.filter(([who, what]) => who === worker && what === type).length
  }

  /** Done when the thread is about to end this way; with `isHoldingLocks`, with every lock that there is. */
  end(worker: number, end: End, isHoldingLocks = false): Promise<void> {
    const { hand } = this.#mortals.get(worker)!
    return new Promise((resolve) => {
      hand.once('message', () => resolve())
      // One that ends fast may be gone before its word is heard.
      hand.once('close', () => resolve())
      hand.postMessage({ end, isHoldingLocks })
    })
  }

  async terminate(worker: number): Promise<void> {
    await this.#mortals.get(worker)!.thread.terminate()
  }

  async terminateAll(): Promise<void> {
    await Promise.all([...this.#mortals.keys()].map((worker) => this.terminate(worker)))
  }
}
