import type { Socket } from 'node:net'

/** Watches whether a client takes what waits for it. */
export class StallWatch {
  readonly #socket: Socket
  /** When it took something last, of so many bytes that waited for it then. */
  #takenMs = 0
  #unsent = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** To be called at every sweep: for how long bytes have waited of which none was taken. */
  stalledMs(nowMs: number): number {
    const before = this.#unsent
    this.#unsent = this.#socket.writableLength
    if (before === 0 || this.#unsent < before) this.#takenMs = nowMs
    return this.#unsent === 0 ? 0 : nowMs - this.#takenMs
  }
}
