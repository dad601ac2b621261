import type { Socket } from 'node:net'
import { GrowingBuffer } from '../growing-buffer.ts'

/** What a client says before it knows whether its new protocol is accepted: as much as a few frames. */
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

  /** Gives out what came, and leaves the connection to whoever asks. */
  take(): Buffer {
    this.#socket.off('data', this.#onData).pause()
    return this.#bytes.bytes
  }

  /** There will be no other protocol: what came and what still comes is thrown away. */
  drop(): void {
    this.#socket.off('data', this.#onData).resume()
  }
}

/** Joins two sockets until one of them is done. Each side's end is passed on, an error ends both. */
export function tunnel(client: Socket, backend: Socket, onClosed: () => void): void {
  let open = 2
  const closed = (other: Socket): void => {
    other.destroy()
    if (--open === 0) onClosed()
  }
  // The 'close' that follows an error does what there is to do.
  client.on('error', () => {}).on('close', () => closed(backend))
  backend.on('error', () => {}).on('close', () => closed(client))
  client.pipe(backend)
  backend.pipe(client)
}
