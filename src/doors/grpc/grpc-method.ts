/** A method of a service, whatever layer carries its calls. Where it throws or rejects, its call gets status 13. */
export type GrpcMethod = UnaryMethod | StreamingMethod

/** One message in, one out. */
export interface UnaryMethod {
  /** As calls name it: `/package.Service/Method`. */
  readonly path: string
  readonly isStreaming: false
  /** Whether it needs the `traceparent` of its calls. */
  readonly isTraced?: boolean
  /** Returns at once where it can. The message may change after that. */
  handle(message: Uint8Array, call: GrpcCall): GrpcReply | Promise<GrpcReply>
}

/** One message in, any number out. */
interface StreamingMethod {
  readonly path: string
  readonly isStreaming: true
  /** Returns what ends it when the caller has gone. */
  handle(message: Uint8Array, call: StreamingCall): () => void
}

/** What a method may know of its call. */
export interface GrpcCall {
  /** Past its deadline, or cancelled: nothing more may be taken for it. The reply is EXPIRED; of a cancelled call it goes nowhere. */
  readonly isOver: boolean
  /** The field of that name; empty or undefined where it has none, or nothing is traced. */
  readonly traceparent?: string
}

export interface StreamingCall extends GrpcCall {
  send(message: Uint8Array): void
  end(status: number, statusMessage: string): void
}

export interface GrpcReply {
  /** One of the statuses below. */
  readonly status: number
  /** For people; empty where all is well. */
  readonly statusMessage: string
  /** Undefined unless the status is OK. */
  readonly message: Uint8Array | undefined
}

export function failed(status: number, statusMessage: string): GrpcReply {
  return { status, statusMessage, message: undefined }
}

/** The statuses of a gRPC call that are used here. */
export const OK = 0
export const INVALID_ARGUMENT = 3
export const DEADLINE_EXCEEDED = 4
export const NOT_FOUND = 5
export const PERMISSION_DENIED = 7
export const RESOURCE_EXHAUSTED = 8
export const UNIMPLEMENTED = 12
export const INTERNAL = 13
export const UNAVAILABLE = 14

/** What calls are told whatever layer carries them, and whatever method they call. */
export const EXPIRED = failed(DEADLINE_EXCEEDED, 'the deadline has passed')
export const TOO_SLOW = failed(DEADLINE_EXCEEDED, 'the message took too long to arrive')
export const CLOSING = failed(UNAVAILABLE, 'the server is closing')
/** The code of the method failed: the log says why. */
export const BROKEN = failed(INTERNAL, 'internal_error')
