import { failed } from './grpc-method.ts'
import { DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE } from './grpc-status.ts'

/** What calls are told whatever layer carries them, and whatever method they call. */
export const EXPIRED = failed(DEADLINE_EXCEEDED, 'the deadline has passed')
export const TOO_SLOW = failed(DEADLINE_EXCEEDED, 'the message took too long to arrive')
export const CLOSING = failed(UNAVAILABLE, 'the server is closing')
/** The code of the method failed: the log says why. */
export const BROKEN = failed(INTERNAL, 'internal_error')
