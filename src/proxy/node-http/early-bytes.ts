import type { Socket } from 'node:net'
import { GrowingBuffer } from '../../growing-buffer.ts'

/** What a client sends before it knows whether its new protocol is accepted: as much as a few frames. */
const MAX_EARLY_BYTES = 64 * 1024

/**
 * Reads on while a WebSocket is being decided and asked for: what comes is kept for the backend, and a client that leaves is
 * noticed, for a connection that nobody reads never ends.
 */
export class EarlyBytes {
  readonly #socket: Socket
  readonly #bytes = new GrowingBuffer()
  readonly #onData = (chunk: Buffer): void => {
    this.#bytes.add(chunk)
    if (this.#bytes.size > MAX_EARLY_BYTES) this.#socket.pause()
  }

  constructor(socket: Socket, first: Buffer) {
    this.#socket = socket
    this.#bytes.add(first)
    socket.on('data', this.#onData).resume()
  }

  /** Returns what came, and leaves the connection to the caller. */
  take(): Buffer {
    this.#socket.off('data', this.#onData).pause()
    return this.#bytes.bytes
  }

  /** There will be no other protocol: what came and what still comes is thrown away. */
  drop(): void {
    this.#socket.off('data', this.#onData).resume()
  }
}
