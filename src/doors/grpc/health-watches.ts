import type { StreamingCall } from './grpc-method.ts'
import { RESOURCE_EXHAUSTED } from './grpc-status.ts'
import { ProtobufWriter } from './protobuf-writer.ts'

// Of grpc.health.v1.HealthCheckResponse.ServingStatus.
const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3

const RESPONSE_STATUS = 1

/** In each worker. A client has one for each of its connections. */
const MAX_WATCHES = 1000
/** How often readiness is looked at while somebody watches. */
const LOOK_MS = 250

const writer = new ProtobufWriter()

/** Open calls of `Watch`, which are told of each change of readiness. One timer serves all of them. At shutdown the layer ends them. */
export class HealthWatches {
  readonly #isReady: () => boolean
  /** For each call, whether its service is known. */
  readonly #calls = new Map<StreamingCall, boolean>()
  #told = NOT_SERVING
  #timer: NodeJS.Timeout | undefined

  constructor(isReady: () => boolean) {
    this.#isReady = isReady
  }

  /** Begins with the present status. */
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

  /** Tells of a change, if there is one. */
  look(): void {
    const status = servingStatus(this.#isReady())
    if (status === this.#told) return
    this.#told = status
    for (const [call, isKnownService] of this.#calls) if (isKnownService) call.send(statusMessage(status))
  }
}

export function servingStatus(isReady: boolean): number {
  return isReady ? SERVING : NOT_SERVING
}

/** A HealthCheckResponse. */
export function statusMessage(status: number): Uint8Array {
  writer.number(RESPONSE_STATUS, status)
  return writer.finish()
}
