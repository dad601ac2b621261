import { failed, type GrpcMethod, type GrpcReply } from './grpc-method.ts'
import { INTERNAL, NOT_FOUND, OK } from './grpc-status.ts'
import { type HealthWatches, servingStatus, statusMessage } from './health-watches.ts'
import { MalformedMessage, ProtobufReader } from './protobuf-reader.ts'

const REQUEST_SERVICE = 1

/** What can be asked for by name; the empty name is the server as a whole. All are ready at the same time. */
const SERVICES: ReadonlySet<string> = new Set([
  '',
  'envoy.service.auth.v3.Authorization',
  'envoy.service.ratelimit.v3.RateLimitService',
  'grpc.health.v1.Health',
])

/** `grpc.health.v1.Health`: whether requests can be decided, as `/readyz` has it. */
export function healthMethods(isReady: () => boolean, watches: HealthWatches): readonly GrpcMethod[] {
  return [
    {
      path: '/grpc.health.v1.Health/Check',
      isStreaming: false,
      handle(message): GrpcReply {
        const service = serviceOf(message)
        if (service === undefined) return failed(INTERNAL, 'the message is malformed')
        if (!SERVICES.has(service)) return failed(NOT_FOUND, 'unknown service')
        return { status: OK, statusMessage: '', message: statusMessage(servingStatus(isReady())) }
      },
    },
    {
      path: '/grpc.health.v1.Health/Watch',
      isStreaming: true,
      handle(message, call): () => void {
        const service = serviceOf(message)
        if (service === undefined) call.end(INTERNAL, 'the message is malformed')
        else watches.add(call, SERVICES.has(service))
        return () => watches.delete(call)
      },
    },
  ]
}

/** Undefined: the message is malformed. */
function serviceOf(message: Uint8Array): string | undefined {
  const reader = new ProtobufReader()
  let service = ''
  try {
    reader.begin(message)
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === REQUEST_SERVICE) service = reader.text()
      else reader.skip()
    }
    return service
  } catch (error) {
    if (error instanceof MalformedMessage) return undefined
    throw error
  }
}
