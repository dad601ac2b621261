import type { Socket } from 'node:net'
import { InvalidResponse } from './response-head.ts'

export type FailureReason = 'backend_refused' | 'backend_timeout' | 'backend_reset' | 'backend_invalid' | 'backend_busy'

/** Why the backend gave no response, or not a whole one. */
export class BackendFailure extends Error {
  readonly code: FailureReason

  constructor(code: FailureReason, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** A failure before the connection was there. */
export function connectFailure(error: NodeJS.ErrnoException): BackendFailure {
  const isTimeout = error.code === 'ETIMEDOUT' || error.code === 'ERR_SOCKET_CONNECTION_TIMEOUT'
  return new BackendFailure(isTimeout ? 'backend_timeout' : 'backend_refused', `the connection failed: ${describe(error)}`, error)
}

/** A failure on a connection that was there. */
export function exchangeFailure(error: unknown): BackendFailure {
  if (error instanceof InvalidResponse) return new BackendFailure('backend_invalid', error.message, error)
  return new BackendFailure('backend_reset', `the connection broke: ${describe(error as NodeJS.ErrnoException)}`, error)
}

/** Several addresses may have been tried: each has an error of its own. */
function describe(error: NodeJS.ErrnoException): string {
  const { errors } = error as { errors?: readonly Error[] }
  return errors === undefined ? error.message : errors.map(({ message }) => message).join(', ')
}

type Written = (error?: Error | null) => void

/**
 * Keeps a socket readable after a write that failed because the other side is gone. Node would destroy it, and with it what the other side
 * sent before it closed, such as a 413 in the middle of an upload. What there is to read is followed by an end or an error,
 * so nobody waits in vain.
 */
export class RefusedWrites {
  /** The first of them. ECONNRESET: the connection was reset. EPIPE: the other side had ended its side in order before. */
  failure: NodeJS.ErrnoException | undefined
  readonly #socket: Socket
  /** What Node last asked to be told of a write, and what is told in its place. It is the same for all writes of a socket. */
  #written: Written | undefined
  #tolerant: Written = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    const { _write, _writev } = socket
    socket._write = (chunk, encoding, written) => _write.call(socket, chunk, encoding, this.#tolerate(written))
    if (_writev) socket._writev = (chunks, written) => _writev.call(socket, chunks, this.#tolerate(written))
  }

  /** From here on the socket is an ordinary one. */
  stop(): void {
    Reflect.deleteProperty(this.#socket, '_write')
    Reflect.deleteProperty(this.#socket, '_writev')
  }

  #tolerate(written: Written): Written {
    if (written === this.#written) return this.#tolerant
    const tolerant = (error?: NodeJS.ErrnoException | null): void => {
      if (error?.code !== 'EPIPE' && error?.code !== 'ECONNRESET') return written(error)
      this.failure ??= error
      written()
    }
    this.#written = written
    this.#tolerant = tolerant
    return tolerant
  }
}
