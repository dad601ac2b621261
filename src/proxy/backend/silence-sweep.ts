import type { Socket } from 'node:net'

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

/** How long a connection may be silent, and since when it is, by the clocks of the sweep. */
export class SilenceWatch {
  readonly #sweep: SilenceSweep
  readonly #socket: Socket
  /** 0: as long as it likes. */
  #limitMs: number
  #sinceMs: number
  /** How many bytes were not sent yet at the last check. */
  #unsentBytes = 0

  constructor(sweep: SilenceSweep, socket: Socket, limitMs: number) {
    this.#sweep = sweep
    this.#socket = socket
    this.#limitMs = limitMs
    this.#sinceMs = sweep.listenedMs
  }

  /** Something happened on the connection. */
  heard(): void {
    this.#sinceMs = this.#sweep.listenedMs
  }

  /** 0: it may be silent for as long as it likes. */
  limit(ms: number): void {
    if (ms === this.#limitMs) return
    this.#limitMs = ms
    this.heard()
  }

  /** It is idle from now on, for no longer than this. */
  rest(ms: number): void {
    this.#limitMs = ms
    this.#sinceMs = this.#sweep.nowMs
  }

  /** Some of what was written has to wait. */
  onUnsent(): void {
    this.#unsentBytes = unsentBytes(this.#socket)
  }

  onDrained(): void {
    this.heard()
    this.#unsentBytes = 0
  }

  /** By the true time: the backend counts as well while this thread is held up. */
  isRestOver(): boolean {
    return this.#sweep.nowMs - this.#sinceMs >= this.#limitMs
  }

  /** Of a connection that is not idle. */
  isTooLong(): boolean {
    return this.#limitMs > 0 && this.#sweep.isOver(this.#sinceMs, this.#limitMs) && !this.#isSending()
  }

  /** Whether less waits to be sent than when that was last looked at: the backend is slow, and not silent. */
  #isSending(): boolean {
    const before = this.#unsentBytes
    this.#unsentBytes = unsentBytes(this.#socket)
    if (this.#unsentBytes >= before) return false
    this.heard()
    return true
  }
}

/** What the system has not taken yet. Node reports the progress of a large write nowhere else. */
function unsentBytes(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { readonly writeQueueSize?: number } | null }
  return handle?.writeQueueSize ?? socket.writableLength
}
