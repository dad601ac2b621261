import { Backoff } from '../../../time/clock.ts'
import type { Deadlines } from './call.ts'

/** How long the first connection may take before it is reported. A failure before that is reported at once, with its reason. */
const QUIET_START_MS = 2000

/**
 * Decides whether a node may be called. The circuit starts open and closes when a probe succeeds; from then on it opens at each failure.
 * While it is open, the node is probed until a probe succeeds. Each change is reported once.
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

  /** Stops probing, without a report. */
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

/** A server that goes away nearly always closes its connection, which is noticed at once; this is for one that falls silent. */
export const IDLE_MS = 5000

/** Probes after some time without replies: if there were no calls, a silent server would go unnoticed. */
export class IdleWatch {
  readonly #idleMs: number
  readonly #probe: () => void
  #lastReplyMs = performance.now()
  #timer: NodeJS.Timeout

  constructor(idleMs: number, probe: () => void) {
    this.#idleMs = idleMs
    this.#probe = probe
    this.#timer = this.#arm(idleMs)
  }

  noteReply(nowMs: number): void {
    this.#lastReplyMs = nowMs
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #arm(waitMs: number): NodeJS.Timeout {
    return setTimeout(this.#onTimer, Math.ceil(waitMs)).unref()
  }

  // One timer is armed again when it fires, instead of one for each reply.
  readonly #onTimer = (): void => {
    const idleMs = performance.now() - this.#lastReplyMs
    const isIdle = idleMs >= this.#idleMs
    this.#timer = this.#arm(isIdle ? this.#idleMs : this.#idleMs - idleMs)
    if (isIdle) this.#probe()
  }
}
