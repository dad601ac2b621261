import type { Socket } from 'node:net'
import { InvalidResponse } from './response-head.ts'

export type FailureReason =
  | 'backend_refused'
  | 'backend_timeout'
  | 'backend_reset'
  | 'backend_invalid'
  | 'backend_busy'
  | 'backends_cooling'

/** The reason why the backend sent no response, or not a complete one. */
export class BackendFailure extends Error {
  readonly code: FailureReason
  /** When the client may try again, if we know. */
  retryAfterMs: number | undefined
  /** The name of the backend, if a route named it. */
  backend: string | undefined

  constructor(code: FailureReason, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** Describes an error that occurred before the connection was established. */
export function connectFailure(error: NodeJS.ErrnoException): BackendFailure {
  const isTimeout = error.code === 'ETIMEDOUT' || error.code === 'ERR_SOCKET_CONNECTION_TIMEOUT'
  return new BackendFailure(isTimeout ? 'backend_timeout' : 'backend_refused', `the connection failed: ${describe(error)}`, error)
}

/** Describes an error on an established connection. */
export function exchangeFailure(error: unknown): BackendFailure {
  if (error instanceof InvalidResponse) return new BackendFailure('backend_invalid', error.message, error)
  return new BackendFailure('backend_reset', `the connection broke: ${describe(error as NodeJS.ErrnoException)}`, error)
}

/** If several addresses were tried, each has an error of its own. */
function describe(error: NodeJS.ErrnoException): string {
  const { errors } = error as { errors?: readonly Error[] }
  return errors === undefined ? error.message : errors.map(({ message }) => message).join(', ')
}

type Written = (error?: Error | null) => void

/**
 * Keeps a socket readable after a write fails because the peer is gone. Node would destroy the socket and lose what the peer sent before it closed,
 * such as a 413 in the middle of an upload. The remaining bytes are followed by an end or an error, so nobody waits in vain.
 */
export class RefusedWrites {
  /** Error of the first write that failed. ECONNRESET means that the connection was reset, EPIPE that the peer had closed its side in order before. */
  failure: NodeJS.ErrnoException | undefined
  readonly #socket: Socket
  /** The last write callback that Node passed, and the one that replaces it. Node passes the same one for all writes of a socket. */
  #written: Written | undefined
  #tolerant: Written = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    const { _write, _writev } = socket
    socket._write = (chunk, encoding, written) => _write.call(socket, chunk, encoding, this.#tolerate(written))
    if (_writev) socket._writev = (chunks, written) => _writev.call(socket, chunks, this.#tolerate(written))
  }

  /** Restores the socket's ordinary behaviour. */
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
