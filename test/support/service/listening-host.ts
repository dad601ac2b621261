import type { FromWorker, ToWorker } from '../../../src/control/thread-messages.ts'
import type { WorkerHost } from '../../../src/runtime/threads/worker-host.ts'

/** Hears what is said to the worker, and speaks for it. */
export class ListeningHost implements WorkerHost {
  readonly sent: ToWorker[] = []
  readonly bind: WorkerHost['bind']
  readonly #inner: WorkerHost
  #hear: (message: FromWorker) => void = () => {}

  constructor(inner: WorkerHost) {
    this.#inner = inner
    this.bind = inner.bind.bind(inner)
  }

  startWorker: WorkerHost['startWorker'] = (worker, memory, listener) => {
    this.#hear = (message) => listener.onMessage(message)
    const link = this.#inner.startWorker(worker, memory, listener)
    const send = (message: ToWorker): void => {
      this.sent.push(message)
      link.send(message)
    }
    return { send, terminate: () => link.terminate() }
  }

  say(message: FromWorker): void {
    this.#hear(message)
  }
}
