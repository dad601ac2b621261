const IDLE_MS = 1000

/** Probes after a second without replies: without calls, an unreachable server would go unnoticed. */
export class IdleWatch {
  readonly #probe: () => void
  #lastReplyMs = performance.now()
  #timer: NodeJS.Timeout

  constructor(probe: () => void) {
    this.#probe = probe
    this.#timer = this.#arm(IDLE_MS)
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

  // One timer that is armed again when it fires, instead of one for each reply.
  readonly #onTimer = (): void => {
    const idleMs = performance.now() - this.#lastReplyMs
    const isIdle = idleMs >= IDLE_MS
    this.#timer = this.#arm(isIdle ? IDLE_MS : IDLE_MS - idleMs)
    if (isIdle) this.#probe()
  }
}
