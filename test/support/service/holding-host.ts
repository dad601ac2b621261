import type { WorkerHost, WorkerLink } from '../../../src/threads/host.ts'
import type { ToWorker } from '../../../src/threads/messages.ts'

/** Keeps bundles from the workers of another host until it is told to let them go, as a machine that is too busy to compile does. */
export class HoldingHost {
  readonly #held: (() => void)[] = []
  #isOpen = false

  get isHolding(): boolean {
    return this.#held.length > 0
  }

  letGo(): void {
    this.#isOpen = true
    for (const tell of this.#held.splice(0)) tell()
  }

  /** In front of this host. */
  around(host: WorkerHost): WorkerHost {
    return {
      openPort: (...args) => host.openPort(...args),
      startWorker: (...args) => this.#around(host.startWorker(...args)),
    }
  }

  #around(link: WorkerLink): WorkerLink {
    const tell = (message: ToWorker): void => {
      if (message.type === 'prepare' && !this.#isOpen) this.#held.push(() => link.tell(message))
      else link.tell(message)
    }
    return { tell, terminate: () => link.terminate() }
  }
}
