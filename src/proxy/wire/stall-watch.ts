import type { Socket } from 'node:net'

/** Watches whether a client takes what waits for it. */
export class StallWatch {
  readonly #socket: Socket
  /** How much the client had taken when it last took something, and when that was noticed; undefined while nothing waits for it. */
  #takenBytes: number | undefined
  #takenMs = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** To be called at every sweep: for how long bytes have waited of which none was taken. */
  stalledMs(nowMs: number): number {
    const { writableLength } = this.#socket
    // The same number of bytes may wait although all earlier ones were taken: later ones have followed them.
    const takenBytes = writableLength === 0 ? undefined : this.#socket.bytesWritten - writableLength
    if (takenBytes === undefined || takenBytes !== this.#takenBytes) this.#takenMs = nowMs
    this.#takenBytes = takenBytes
    return nowMs - this.#takenMs
  }
}
