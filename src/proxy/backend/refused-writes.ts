import type { Socket } from 'node:net'

type Write = (error?: Error | null) => void

/**
 * Keeps a socket readable after a write that failed because the other side is gone. Node would destroy it, and with it what the other side
 * sent before it closed, such as a 413 in the middle of an upload. What there is to read is followed by an end or an error,
 * so nobody waits in vain.
 */
export class RefusedWrites {
  /** The first of them. ECONNRESET: the connection was reset. EPIPE: the other side had ended its side in order before. */
  failure: NodeJS.ErrnoException | undefined
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
    const { _write, _writev } = socket
    socket._write = (chunk, encoding, done) => _write.call(socket, chunk, encoding, this.#without(done))
    if (_writev) socket._writev = (chunks, done) => _writev.call(socket, chunks, this.#without(done))
  }

  /** From here on the socket is an ordinary one. */
  stop(): void {
    Reflect.deleteProperty(this.#socket, '_write')
    Reflect.deleteProperty(this.#socket, '_writev')
  }

  #without(done: Write): Write {
    return (error?: NodeJS.ErrnoException | null) => {
      if (error?.code !== 'EPIPE' && error?.code !== 'ECONNRESET') return done(error)
      this.failure ??= error
      done()
    }
  }
}
