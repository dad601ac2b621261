import { Backoff } from './backoff.ts'

/** How long a first connection may take before anybody is told. What fails sooner is told with its reason. */
const QUIET_START_MS = 2000

/**
 * Whether a node is to be asked. Open at first, until the node has shown that it serves; from then on it opens at each
 * sign that it does not. While open, it asks for probes until one succeeds. Each change is told once.
 */
export class Circuit {
  isOpen = true
  #isTold = false
  readonly #tell: (isOpen: boolean, reason: string) => void
  readonly #probe: () => void
  readonly #backoff = new Backoff(100, 1000)
  #probeTimer: NodeJS.Timeout | undefined
  #quietTimer: NodeJS.Timeout | undefined

  constructor(tell: (isOpen: boolean, reason: string) => void, probe: () => void) {
    this.#tell = tell
    this.#probe = probe
    this.#quietTimer = setTimeout(() => this.open('connecting'), QUIET_START_MS)
    this.#probeLater()
  }

  open(reason: string): void {
    clearTimeout(this.#quietTimer)
    if (!this.isOpen) {
      this.isOpen = true
      this.#probeLater()
    }
    if (this.#isTold) return
    this.#isTold = true
    this.#tell(true, reason)
  }

  close(reason: string): void {
    this.stop()
    this.#backoff.reset()
    this.isOpen = false
    if (!this.#isTold) return
    this.#isTold = false
    this.#tell(false, reason)
  }

  /** No more probes, and nothing is told. */
  stop(): void {
    clearTimeout(this.#quietTimer)
    clearTimeout(this.#probeTimer)
  }

  #probeLater(): void {
    this.#probeTimer = setTimeout(() => {
      this.#probeLater()
      this.#probe()
    }, this.#backoff.nextMs())
  }
}
