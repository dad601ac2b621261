/** How often it checks within the shortest limit. */
const SWEEPS = 10
const MIN_INTERVAL_MS = 5
const MAX_INTERVAL_MS = 200

/**
 * Checks all connections at intervals, instead of a timer for each. Its clocks advance only with each check, so noting a time costs
 * nothing.
 */
export class SilenceSweep {
  readonly #intervalMs: number
  readonly #maxStepMs: number
  /** Returns whether there is still something to watch. */
  readonly #look: () => boolean
  #timer: NodeJS.Timeout | undefined
  nowMs = 0
  /** How long this thread was able to read. While it is blocked it reads nothing, which is no silence of the backend. */
  listenedMs = 0

  constructor(shortestMs: number, look: () => boolean) {
    this.#intervalMs = Math.min(Math.max(Math.floor(shortestMs / SWEEPS), MIN_INTERVAL_MS), MAX_INTERVAL_MS)
    this.#maxStepMs = 2 * this.#intervalMs
    this.#look = look
  }

  /** To be called when there is something to watch. */
  start(): void {
    if (this.#timer !== undefined) return
    this.nowMs = performance.now()
    this.#timer = setInterval(() => this.#sweep(), this.#intervalMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Whether it is at least this long since `listenedMs` was noted. May be true up to three checks late, never early. */
  isOver(sinceMs: number, ms: number): boolean {
    return this.listenedMs - sinceMs >= ms + this.#maxStepMs
  }

  #sweep(): void {
    const nowMs = performance.now()
    this.listenedMs += Math.min(nowMs - this.nowMs, this.#maxStepMs)
    this.nowMs = nowMs
    if (!this.#look()) this.stop()
  }
}
