import type { ToWorker } from '../../../src/runtime/threads/messages.ts'
import type { WorkerHost, WorkerLink } from '../../../src/runtime/threads/worker-host.ts'

/** Keeps some messages from the workers of another host until it is told to let them go, as a machine that is too busy does. */
export class HoldingHost {
  readonly #isHeld: (message: ToWorker) => boolean
  readonly #held: (() => void)[] = []
  #isOpen = false

  constructor(isHeld: (message: ToWorker) => boolean) {
    this.#isHeld = isHeld
  }

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
      if (this.#isHeld(message) && !this.#isOpen) this.#held.push(() => link.tell(message))
      else link.tell(message)
    }
    return { tell, terminate: () => link.terminate() }
  }
}
