import type { Socket } from 'node:net'

/**
 * With so many pipelined requests waiting, the connection is not read any further. Below that it is, because a client that leaves is
 * noticed only on a connection that is read. One read of Node is 64 KiB, and it parses all of it: some 2,400 requests at most.
 */
export const READ_AHEAD = 16

/** On all connections of a worker, at about 1.5 KiB each. Beyond this, connections that read ahead further than the bound above are cut. */
export const MAX_WAITING = 10_000

/** Stops and goes on reading a connection that `node:http` parses. */
export class ReadHold {
  readonly #socket: Socket
  #isHeld = false
  #hasBeenHeld = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  hold(): void {
    this.#isHeld = true
    this.#socket.pause()
    if (this.#hasBeenHeld) return
    this.#hasBeenHeld = true
    // Node resumes the socket behind every message that it has parsed.
    this.#socket.on('resume', () => {
      if (this.#isHeld) this.#socket.pause()
    })
  }

  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#socket.resume()
  }
}
