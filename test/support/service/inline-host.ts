import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import type { Logger } from 'pino'
import type { ServerConfig } from '../../../src/config/config.ts'
import type { ToWorker } from '../../../src/control/thread-messages.ts'
import type { CallerReaderOf } from '../../../src/engine/active-plan.ts'
import { isUnixSocket, type ListenAddress } from '../../../src/listen/listeners.ts'
import type { SharedMemory } from '../../../src/runtime/shared-memory.ts'
import type { SharedSocket, WorkerHost, WorkerLink, WorkerListener } from '../../../src/runtime/threads/worker-host.ts'
import { Worker } from '../../../src/runtime/worker.ts'
import type { Deadlines } from '../../../src/store/redis/link/call.ts'
import type { Clock } from '../../../src/time/clock.ts'

/** The one worker of a service lives in the test's own thread, where a test can hold its clock and read its log. */
export class InlineHost implements WorkerHost {
  readonly #config: ServerConfig
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #deadlines: Deadlines | undefined
  readonly #callerReaderOf: CallerReaderOf | undefined

  constructor(config: ServerConfig, logger: Logger, clock: Clock, deadlines?: Deadlines, callerReaderOf?: CallerReaderOf) {
    this.#config = config
    this.#logger = logger
    this.#clock = clock
    this.#deadlines = deadlines
    this.#callerReaderOf = callerReaderOf
  }

  async bind(address: ListenAddress): Promise<SharedSocket> {
    if (!isUnixSocket(address)) return { share: async () => address, giveBack() {}, noteListening() {}, close() {} }
    // The built one is loaded only where it is needed.
    const { openDescriptorPort } = await import('../workers/descriptor-port.ts')
    return openDescriptorPort(address, 1)
  }

  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink {
    const self = Worker.start({
      config: this.#config,
      memory,
      worker,
      clock: this.#clock,
      logger: this.#logger,
      deadlines: this.#deadlines,
      callerReaderOf: this.#callerReaderOf,
      send: (message) => void setImmediate(() => listener.onMessage(copied(message))),
    })
    return {
      // In the order of sending, and never at once, as between threads
      send: (message) => void setImmediate(async (copy: ToWorker) => (await self).onMessage(copy), copied(message)),
      terminate() {},
    }
  }
}

/** `structuredClone` of Node 20 opens such a channel each time, which costs ten times as much. */
const CHANNEL = new MessageChannel()

/** As between threads: shared memory stays shared, all else is copied. */
function copied<Message>(message: Message): Message {
  CHANNEL.port1.postMessage(message)
  return receiveMessageOnPort(CHANNEL.port2)!.message as Message
}
