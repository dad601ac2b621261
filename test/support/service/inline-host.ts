import type { Logger } from 'pino'
import type { Clock } from '../../../src/clock.ts'
import type { ServerConfig } from '../../../src/config/config.ts'
import type { SharedMemory } from '../../../src/runtime/shared-memory.ts'
import type { ToWorker } from '../../../src/runtime/threads/messages.ts'
import type { SharedPort, WorkerHost, WorkerLink, WorkerListener } from '../../../src/runtime/threads/worker-host.ts'
import { Worker } from '../../../src/runtime/worker.ts'

/** The one worker of a service lives in the test's own thread, where a test can hold its clock and read its log. */
export class InlineHost implements WorkerHost {
  readonly #config: ServerConfig
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(config: ServerConfig, logger: Logger, clock: Clock) {
    this.#config = config
    this.#logger = logger
    this.#clock = clock
  }

  async openPort(port: number, host: string | undefined): Promise<SharedPort> {
    return { share: async () => ({ port, host }), giveBack() {}, close() {} }
  }

  startWorker(worker: number, memory: SharedMemory, listener: WorkerListener): WorkerLink {
    const self = Worker.start({
      config: this.#config,
      memory,
      worker,
      clock: this.#clock,
      logger: this.#logger,
      tell: (message) => void setImmediate(() => listener.onMessage(structuredClone(message))),
    })
    return {
      // In the order of telling, and never at once, as between threads
      tell: (message) => void setImmediate(async (copy: ToWorker) => (await self).hear(copy), cloned(message)),
      terminate() {},
    }
  }
}

/** As between threads: shared memory stays shared, all else is copied. */
function cloned(message: ToWorker): ToWorker {
  return message.type === 'ip_file' || message.type === 'prepare' ? message : structuredClone(message)
}
