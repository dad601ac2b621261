import type { DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { ExtAuthzRequest } from './ext-authz-request.ts'
import { ExtAuthzResponse } from './ext-authz-response.ts'
import { failed, type GrpcCall, type GrpcReply, type UnaryMethod } from './grpc-method.ts'
import { INTERNAL } from './grpc-status.ts'
import { EXPIRED } from './layer-replies.ts'
import { MalformedMessage } from './protobuf-reader.ts'

/** More are in use at a time only while a store is slow. */
const MAX_IDLE_REQUESTS = 64

/** `envoy.service.auth.v3.Authorization`, which Envoy's ext_authz filter calls for each request. */
export class ExtAuthzCheck implements UnaryMethod {
  readonly path = '/envoy.service.auth.v3.Authorization/Check'
  readonly isStreaming = false
  readonly isTraced: boolean
  readonly #pipeline: DecisionPipeline
  readonly #response = new ExtAuthzResponse()
  /** Those that are not in use. */
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

  /** As gRPC libraries have it, a message that cannot be read is status 13. */
  #fail(error: unknown): GrpcReply {
    if (!(error instanceof MalformedMessage)) return this.#response.of(this.#pipeline.fail('ext_authz_grpc', error))
    this.#pipeline.refuse('ext_authz_grpc', 'bad_request', error.message)
    return failed(INTERNAL, error.message)
  }
}
