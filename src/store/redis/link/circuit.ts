import { Backoff } from '../../../backoff.ts'
import type { Deadlines } from './deadlines.ts'

/** How long the first connection may take before it is reported. What fails sooner is reported with its reason. */
const QUIET_START_MS = 2000

/**
 * Whether a node may be called. Open at first, until a probe succeeds; from then on it opens at each failure. While it is
 * open, it is probed until a probe succeeds. Each change is reported once.
 */
export class Circuit {
  isOpen = true
  #isReported = false
  readonly #report: (isOpen: boolean, reason: string) => void
  readonly #probe: () => void
  readonly #backoff = new Backoff(100, 1000)
  #probeTimer: NodeJS.Timeout | undefined
  readonly #endQuietStart: () => void

  constructor(report: (isOpen: boolean, reason: string) => void, probe: () => void, deadlines: Deadlines) {
    this.#report = report
    this.#probe = probe
    this.#endQuietStart = deadlines.after(QUIET_START_MS, () => this.open('connecting'))
    this.#probeLater()
  }

  open(reason: string): void {
    this.#endQuietStart()
    if (!this.isOpen) {
      this.isOpen = true
      this.#probeLater()
    }
    if (this.#isReported) return
    this.#isReported = true
    this.#report(true, reason)
  }

  close(reason: string): void {
    this.stop()
    this.#backoff.reset()
    this.isOpen = false
    if (!this.#isReported) return
    this.#isReported = false
    this.#report(false, reason)
  }

  /** Ends the probes, without a report. */
  stop(): void {
    this.#endQuietStart()
    clearTimeout(this.#probeTimer)
  }

  #probeLater(): void {
    this.#probeTimer = setTimeout(() => {
      this.#probeLater()
      this.#probe()
    }, this.#backoff.nextMs())
  }
}
