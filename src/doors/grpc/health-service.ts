import { failed, type GrpcMethod, type GrpcReply, INTERNAL, NOT_FOUND, OK, RESOURCE_EXHAUSTED, type StreamingCall } from './grpc-method.ts'
import { MalformedMessage, ProtobufReader } from './protobuf-reader.ts'
import { ProtobufWriter } from './protobuf-writer.ts'

const REQUEST_SERVICE = 1

/** Services that can be asked for by name; the empty name is the whole server. All of them become ready at the same time. */
const SERVICES: ReadonlySet<string> = new Set([
  '',
  'envoy.service.auth.v3.Authorization',
  'envoy.service.ratelimit.v3.RateLimitService',
  'grpc.health.v1.Health',
])

/** Methods of `grpc.health.v1.Health`, which reports whether requests can be decided, like `/readyz`. */
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

/** Returns undefined if the message is malformed. */
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

// Values of grpc.health.v1.HealthCheckResponse.ServingStatus.
const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3

const RESPONSE_STATUS = 1

/** Maximum for each worker. A client has one watch for each of its connections. */
const MAX_WATCHES = 1000
/** How often readiness is checked while there are watches. */
const LOOK_MS = 250

const writer = new ProtobufWriter()

/** Open calls of `Watch`, which receive every change of readiness. One timer serves all of them. At shutdown, the HTTP/2 layer ends them. */
export class HealthWatches {
  readonly #isReady: () => boolean
  /** Maps each call to whether its service is known. */
  readonly #calls = new Map<StreamingCall, boolean>()
  #told = NOT_SERVING
  #timer: NodeJS.Timeout | undefined

  constructor(isReady: () => boolean) {
    this.#isReady = isReady
  }

  /** Sends the current status first. */
  add(call: StreamingCall, isKnownService: boolean): void {
    if (this.#calls.size >= MAX_WATCHES) return call.end(RESOURCE_EXHAUSTED, `more than ${MAX_WATCHES} watches`)
    this.look()
    this.#calls.set(call, isKnownService)
    this.#timer ??= setInterval(() => this.look(), LOOK_MS).unref()
    call.send(statusMessage(isKnownService ? this.#told : SERVICE_UNKNOWN))
  }

  delete(call: StreamingCall): void {
    this.#calls.delete(call)
    if (this.#calls.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Sends the status to all watches of known services if it has changed. */
  look(): void {
    const status = servingStatus(this.#isReady())
    if (status === this.#told) return
    this.#told = status
    for (const [call, isKnownService] of this.#calls) if (isKnownService) call.send(statusMessage(status))
  }
}

function servingStatus(isReady: boolean): number {
  return isReady ? SERVING : NOT_SERVING
}

/** Returns a HealthCheckResponse. */
function statusMessage(status: number): Uint8Array {
  writer.number(RESPONSE_STATUS, status)
  return writer.finish()
}
