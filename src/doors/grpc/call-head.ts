import { failed, type GrpcMethod, type GrpcReply } from './grpc-method.ts'
import { INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED } from './grpc-status.ts'

/** What a call's header fields say. '' where a field is absent; where it is repeated, something with `, ` in it. */
export interface CallHead {
  readonly method: string
  readonly path: string
  readonly contentType: string
  readonly timeout: string
  readonly encoding: string
}

/** A call that no method sees. Clients that do not speak gRPC learn it from the HTTP status. */
export interface CallRefusal {
  readonly httpStatus: number
  readonly reply: GrpcReply
}

const NOT_POST: CallRefusal = { httpStatus: 405, reply: failed(INTERNAL, 'the method of a call is POST') }
const NOT_GRPC: CallRefusal = { httpStatus: 415, reply: failed(INVALID_ARGUMENT, 'the content-type of a call is application/grpc') }
const NO_METHOD: CallRefusal = { httpStatus: 200, reply: failed(UNIMPLEMENTED, 'no such method') }
const BAD_TIMEOUT: CallRefusal = { httpStatus: 200, reply: failed(INTERNAL, 'grpc-timeout is malformed') }

/** Returns the method that is called, or why there is none. `timeoutMs` is NaN where it is malformed. */
export function methodOf(methods: ReadonlyMap<string, GrpcMethod>, head: CallHead, timeoutMs: number): GrpcMethod | CallRefusal {
  if (head.method !== 'POST') return NOT_POST
  if (!isGrpc(head.contentType)) return NOT_GRPC
  const method = methods.get(head.path)
  if (method === undefined) return NO_METHOD
  return Number.isNaN(timeoutMs) ? BAD_TIMEOUT : method
}

export function isRefusal(method: GrpcMethod | CallRefusal): method is CallRefusal {
  return 'httpStatus' in method
}

/** Whether messages may be compressed. */
export function isEncoded(encoding: string): boolean {
  return encoding !== '' && encoding !== 'identity'
}

/** Messages are always Protocol Buffers. */
function isGrpc(contentType: string): boolean {
  return contentType === 'application/grpc' || contentType === 'application/grpc+proto' || GRPC_WITH_PARAMETERS.test(contentType)
}

const GRPC_WITH_PARAMETERS = /^application\/grpc(?:\+proto)?[ \t]*;/
