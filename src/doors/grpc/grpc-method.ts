/** A method of a service, independent of the layer that carries its calls. If it throws or rejects, the call gets status 13 (INTERNAL). */
export type GrpcMethod = UnaryMethod | StreamingMethod

/** A method with one request message and one response message. */
export interface UnaryMethod {
  /** Path by which calls name it: `/package.Service/Method`. */
  readonly path: string
  readonly isStreaming: false
  /** Whether it needs the `traceparent` of its calls. */
  readonly isTraced?: boolean
  /** Answers synchronously if it can. The message's bytes may change once it has returned. */
  handle(message: Uint8Array, call: GrpcCall): GrpcReply | Promise<GrpcReply>
}

/** A method with one request message and any number of response messages. */
interface StreamingMethod {
  readonly path: string
  readonly isStreaming: true
  /** Returns a function that is called when the call is over. */
  handle(message: Uint8Array, call: StreamingCall): () => void
}

/** The facts about a call that a method may use. */
export interface GrpcCall {
  /** Whether the call is cancelled, answered or past its deadline. If so, nothing more may be taken for it, and its reply is EXPIRED, if it still gets one. */
  readonly isOver: boolean
  /** The call's `traceparent` field; empty or undefined if it has none or nothing is traced. */
  readonly traceparent?: string
}

export interface StreamingCall extends GrpcCall {
  send(message: Uint8Array): void
  end(status: number, statusMessage: string): void
}

export interface GrpcReply {
  /** One of the gRPC status codes below. */
  readonly status: number
  /** Explanation for people; empty if the status is OK. */
  readonly statusMessage: string
  /** Undefined unless the status is OK. */
  readonly message: Uint8Array | undefined
}

export function failed(status: number, statusMessage: string): GrpcReply {
  return { status, statusMessage, message: undefined }
}

/** The gRPC status codes that are used here. */
export const OK = 0
export const INVALID_ARGUMENT = 3
export const DEADLINE_EXCEEDED = 4
export const NOT_FOUND = 5
export const PERMISSION_DENIED = 7
export const RESOURCE_EXHAUSTED = 8
export const UNIMPLEMENTED = 12
export const INTERNAL = 13
export const UNAVAILABLE = 14
export const UNAUTHENTICATED = 16

/** Replies that do not depend on the method or on the layer that carries the call. */
export const EXPIRED = failed(DEADLINE_EXCEEDED, 'the deadline has passed')
export const TOO_SLOW = failed(DEADLINE_EXCEEDED, 'the message took too long to arrive')
export const CLOSING = failed(UNAVAILABLE, 'the server is closing')
/** Reply to a call whose method failed. The log has the cause. */
export const BROKEN = failed(INTERNAL, 'internal_error')
