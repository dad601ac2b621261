import type { Socket } from 'node:net'

/** Watches whether a client takes what waits for it. */
export class StallWatch {
  readonly #socket: Socket
  /** What it had taken when some of it last did, and when that was noticed; undefined while nothing waits for it. */
  #takenBytes: number | undefined
  #takenMs = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** To be called at every sweep: for how long bytes have waited of which none was taken. */
  stalledMs(nowMs: number): number {
    const { writableLength } = this.#socket
    // As much may wait as before though all of that was taken: what is behind it has followed.
    const takenBytes = writableLength === 0 ? undefined : this.#socket.bytesWritten - writableLength
    if (takenBytes === undefined || takenBytes !== this.#takenBytes) this.#takenMs = nowMs
    this.#takenBytes = takenBytes
    return nowMs - this.#takenMs
  }
}
