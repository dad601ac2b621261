import type { Socket } from 'node:net'
import type { SilenceSweep } from './silence-sweep.ts'

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
