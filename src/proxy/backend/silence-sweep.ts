/** So often in the shortest time that is watched. */
const SWEEPS = 10
const MIN_INTERVAL_MS = 5
const MAX_INTERVAL_MS = 200

/**
 * Looks at all connections now and then, in place of a timer for each. Its clocks stand still between two looks, so that noting a time costs
 * nothing.
 */
export class SilenceSweep {
  readonly #intervalMs: number
  readonly #maxStepMs: number
  /** Returns whether there is still something to watch. */
  readonly #look: () => boolean
  #timer: NodeJS.Timeout | undefined
  nowMs = 0
  /** How long this thread has listened. While it is held up it hears nobody: that is no silence of theirs. */
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

  /** Whether it is at least this long since `listenedMs` was noted. May be told up to three looks too late, and never too early. */
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
