import type { ToWorker } from '../../../src/control/thread-messages.ts'
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
    for (const send of this.#held.splice(0)) send()
  }

  /** In front of this host. */
  around(host: WorkerHost): WorkerHost {
    return {
      bind: (...args) => host.bind(...args),
      startWorker: (...args) => this.#around(host.startWorker(...args)),
    }
  }

  #around(link: WorkerLink): WorkerLink {
    const send = (message: ToWorker): void => {
      if (this.#isHeld(message) && !this.#isOpen) this.#held.push(() => link.send(message))
      else link.send(message)
    }
    return { send, terminate: () => link.terminate() }
  }
}
