const IDLE_MS = 1000

/** Wants a probe whenever nothing was heard for a second: who asks nothing does not notice that nobody would answer. */
export class IdleWatch {
  readonly #probe: () => void
  #heardMs = performance.now()
  #timer: NodeJS.Timeout

  constructor(probe: () => void) {
    this.#probe = probe
    this.#timer = this.#arm(IDLE_MS)
  }

  heard(nowMs: number): void {
    this.#heardMs = nowMs
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #arm(waitMs: number): NodeJS.Timeout {
    return setTimeout(this.#onTimer, Math.ceil(waitMs)).unref()
  }

  // One timer that is moved on when it comes up, instead of one for each answer.
  readonly #onTimer = (): void => {
    const idleMs = performance.now() - this.#heardMs
    const isIdle = idleMs >= IDLE_MS
    this.#timer = this.#arm(isIdle ? IDLE_MS : IDLE_MS - idleMs)
    if (isIdle) this.#probe()
  }
}
