import type { Socket } from 'node:net'

/** Number of checks within the shortest limit. */
const SWEEPS = 10
const MIN_INTERVAL_MS = 5
const MAX_INTERVAL_MS = 200

/** Checks all connections at intervals, so that they need no timers of their own. Its clocks advance only at each check, so noting a time costs nothing. */
export class SilenceSweep {
  readonly #intervalMs: number
  readonly #maxStepMs: number
  /** Returns whether there is still something to watch. */
  readonly #look: () => boolean
  #timer: NodeJS.Timeout | undefined
  nowMs = 0
  /** How long this thread was able to read, in milliseconds. Time in which it was blocked does not count as the backend's silence. */
  listenedMs = 0

  constructor(shortestMs: number, look: () => boolean) {
    this.#intervalMs = Math.min(Math.max(Math.floor(shortestMs / SWEEPS), MIN_INTERVAL_MS), MAX_INTERVAL_MS)
    this.#maxStepMs = 2 * this.#intervalMs
    this.#look = look
  }

  /** Starts the checks, which stop by themselves when nothing is left to watch. */
  start(): void {
    if (this.#timer !== undefined) return
    this.nowMs = performance.now()
    this.#timer = setInterval(() => this.#sweep(), this.#intervalMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Whether at least `ms` have passed since `sinceMs`, a value of `listenedMs`. The answer may be up to three checks late, but never early. */
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

/** Watches for how long a connection has been silent, by the clocks of the sweep. */
export class SilenceWatch {
  readonly #sweep: SilenceSweep
  readonly #socket: Socket
  /** Limit for the silence; 0 means none. */
  #limitMs: number
  #sinceMs: number
  /** Number of bytes that were unsent at the last check. */
  #unsentBytes = 0

  constructor(sweep: SilenceSweep, socket: Socket, limitMs: number) {
    this.#sweep = sweep
    this.#socket = socket
    this.#limitMs = limitMs
    this.#sinceMs = sweep.listenedMs
  }

  /** To be called when something happened on the connection. */
  heard(): void {
    this.#sinceMs = this.#sweep.listenedMs
  }

  /** For how long nothing has happened on a connection that is in use. */
  get silentMs(): number {
    return this.#sweep.listenedMs - this.#sinceMs
  }

  /** Limits how long the connection may be silent; 0 means no limit. */
  limit(ms: number): void {
    if (ms === this.#limitMs) return
    this.#limitMs = ms
    this.heard()
  }

  /** Makes the connection idle from now on, for at most this long. */
  rest(ms: number): void {
    this.#limitMs = ms
    this.#sinceMs = this.#sweep.nowMs
  }

  /** To be called when some of the written bytes have to wait. */
  onUnsent(): void {
    this.#unsentBytes = unsentBytes(this.#socket)
  }

  onDrained(): void {
    this.heard()
    this.#unsentBytes = 0
  }

  /** Uses the real time, because the backend's own timeout also runs while this thread is blocked. */
  isRestOver(): boolean {
    return this.#sweep.nowMs - this.#sinceMs >= this.#limitMs
  }

  /** Whether a connection that is in use has been silent for too long. */
  isTooLong(): boolean {
    return this.#limitMs > 0 && this.#sweep.isOver(this.#sinceMs, this.#limitMs) && !this.#isSending()
  }

  /** Whether fewer bytes are unsent than at the last check: then the backend is slow, but not silent. */
  #isSending(): boolean {
    const before = this.#unsentBytes
    this.#unsentBytes = unsentBytes(this.#socket)
    if (this.#unsentBytes >= before) return false
    this.heard()
    return true
  }
}

/** Returns how many bytes the system has not taken yet. Node shows the progress of a large write nowhere else. */
function unsentBytes(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { readonly writeQueueSize?: number } | null }
  return handle?.writeQueueSize ?? socket.writableLength
}
