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
