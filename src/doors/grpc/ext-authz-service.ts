import { answerHeaders, type DecisionAnswer, REMOVED_FIELDS_FIELD, RESERVATION_FIELD } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { ExtAuthzRequest } from './ext-authz-request.ts'
import {
  EXPIRED,
  failed,
  type GrpcCall,
  type GrpcReply,
  INTERNAL,
  INVALID_ARGUMENT,
  OK,
  PERMISSION_DENIED,
  RESOURCE_EXHAUSTED,
  UNAUTHENTICATED,
  UNAVAILABLE,
  type UnaryMethod,
} from './grpc-method.ts'
import { MalformedMessage } from './protobuf-reader.ts'
import { ProtobufWriter, textBytes, varintBytes } from './protobuf-writer.ts'

/** Unused request objects that are kept. More are in use at a time only while a store is slow. */
const MAX_IDLE_REQUESTS = 64

/** `envoy.service.auth.v3.Authorization/Check`, which Envoy's ext_authz filter calls for each request. */
export class ExtAuthzCheck implements UnaryMethod {
  readonly path = '/envoy.service.auth.v3.Authorization/Check'
  readonly isStreaming = false
  readonly isTraced: boolean
  readonly #pipeline: DecisionPipeline
  readonly #response = new ExtAuthzResponse()
  /** Request objects that are not in use. */
  readonly #requests = [new ExtAuthzRequest()]

  constructor(pipeline: DecisionPipeline) {
    this.#pipeline = pipeline
    this.isTraced = pipeline.isTraced
  }

  handle(message: Uint8Array, call: GrpcCall): GrpcReply | Promise<GrpcReply> {
    if (call.isOver) return EXPIRED
    const request = this.#requests.pop() ?? new ExtAuthzRequest()
    try {
      request.read(message)
    } catch (error) {
      this.#giveBack(request)
      return this.#fail(error)
    }
    request.callTraceparent = call.traceparent ?? ''
    const answer = this.#pipeline.decide(request)
    if (!(answer instanceof Promise)) return this.#conclude(request, answer)
    request.keepMessage()
    return answer.then((later) => this.#conclude(request, later))
  }

  #conclude(request: ExtAuthzRequest, answer: DecisionAnswer): GrpcReply {
    this.#giveBack(request)
    return this.#response.of(answer)
  }

  #giveBack(request: ExtAuthzRequest): void {
    request.clear()
    if (this.#requests.length < MAX_IDLE_REQUESTS) this.#requests.push(request)
  }

  /** Like gRPC libraries, we answer a message that cannot be read with status 13 (INTERNAL). */
  #fail(error: unknown): GrpcReply {
    if (!(error instanceof MalformedMessage)) return this.#response.of(this.#pipeline.fail('ext_authz_grpc', error))
    this.#pipeline.refuse('ext_authz_grpc', 'bad_request', error.message)
    return failed(INTERNAL, error.message)
  }
}

// Numbers of the fields that are written, by message (envoy/service/auth/v3, envoy/config/core/v3, google/rpc).
const CHECK_STATUS = 1
const CHECK_DENIED = 2
const CHECK_OK = 3
const OK_UPSTREAM_HEADERS = 2
const OK_HEADERS_TO_REMOVE = 5
const OK_RESPONSE_HEADERS = 6
const DENIED_STATUS = 1
const DENIED_HEADERS = 2
const STATUS_CODE = 1
const STATUS_MESSAGE = 2
const OPTION_HEADER = 1
const OPTION_APPEND_ACTION = 3
const HEADER_NAME = 1
const HEADER_VALUE = 2

/** Replaces a field that the backend or the client has sent. Without it, both values would stand next to each other. */
const OVERWRITE_IF_EXISTS_OR_ADD = 2
const APPEND_ACTION_BYTES = 2

const FIRST_SERVER_ERROR = 500
/** gRPC status for each HTTP status; any other HTTP status below 500 is a fault of the request, INVALID_ARGUMENT. */
const STATUS_CODES: ReadonlyMap<number, number> = new Map([
  [429, RESOURCE_EXHAUSTED],
  [403, PERMISSION_DENIED],
  [401, UNAUTHENTICATED],
])

/** Writes answers as CheckResponse messages. */
class ExtAuthzResponse {
  readonly #writer = new ProtobufWriter()
  /** Lower-case names, as HTTP/2 requires. */
  readonly #lowerNames = new Map<string, string>()

  /** If nothing could be decided, the call itself fails, since only a failed call triggers the gateway's `failure_mode_allow`. */
  of(answer: DecisionAnswer): GrpcReply {
    const { status, decision, refusal } = answer
    if (status >= FIRST_SERVER_ERROR) return failed(UNAVAILABLE, refusal ?? 'unavailable')
    this.#writer.clear()
    if (decision?.action === 'allow') this.#writeAllowed(answer)
    else this.#writeDenied(answer, refusal ?? decision!.reason)
    return { status: OK, statusMessage: '', message: this.#writer.finish() }
  }

  #writeAllowed(answer: DecisionAnswer): void {
    const writer = this.#writer
    writer.begin(CHECK_STATUS, 0)
    const content = writer.open(CHECK_OK)
    const headers = answerHeaders(answer)
    for (let i = 0; i < headers.length; i += 2) {
      if (headers[i] === REMOVED_FIELDS_FIELD) continue
      // The reservation goes to the backend, or to a filter before it, but not to the client, who could settle it.
      const isForBackend = headers[i] === RESERVATION_FIELD
      this.#writeHeader(isForBackend ? OK_UPSTREAM_HEADERS : OK_RESPONSE_HEADERS, headers[i]!, headers[i + 1]!)
    }
    for (const name of answer.removedFields ?? []) writer.text(OK_HEADERS_TO_REMOVE, name)
    writer.close(content)
  }

  #writeDenied(answer: DecisionAnswer, reason: string): void {
    const writer = this.#writer
    const code = STATUS_CODES.get(answer.status) ?? INVALID_ARGUMENT
    const status = writer.open(CHECK_STATUS)
    writer.number(STATUS_CODE, code)
    writer.text(STATUS_MESSAGE, reason)
    writer.close(status)
    const denied = writer.open(CHECK_DENIED)
    writer.begin(DENIED_STATUS, 1 + varintBytes(answer.status))
    writer.number(STATUS_CODE, answer.status)
    const headers = answerHeaders(answer)
    for (let i = 0; i < headers.length; i += 2) this.#writeHeader(DENIED_HEADERS, headers[i]!, headers[i + 1]!)
    writer.close(denied)
  }

  #writeHeader(field: number, name: string, value: string): void {
    const writer = this.#writer
    const lowerName = this.#lowerName(name)
    const headerBytes = textBytes(lowerName) + textBytes(value)
    writer.begin(field, 1 + varintBytes(headerBytes) + headerBytes + APPEND_ACTION_BYTES)
    writer.begin(OPTION_HEADER, headerBytes)
    writer.text(HEADER_NAME, lowerName)
    writer.text(HEADER_VALUE, value)
    writer.number(OPTION_APPEND_ACTION, OVERWRITE_IF_EXISTS_OR_ADD)
  }

  #lowerName(name: string): string {
    let lower = this.#lowerNames.get(name)
    if (lower === undefined) {
      lower = name.toLowerCase()
      this.#lowerNames.set(name, lower)
    }
    return lower
  }
}
