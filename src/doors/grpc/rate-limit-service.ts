import type { DecisionPipeline, LimitAnswer } from '../../decide/decision-pipeline.ts'
import type { Series } from '../../telemetry/metrics/counter-family.ts'
import { failed, type GrpcMethod, type GrpcReply } from './grpc-method.ts'
import { INTERNAL, INVALID_ARGUMENT, OK, UNAVAILABLE } from './grpc-status.ts'
import { EXPIRED } from './layer-replies.ts'
import { MalformedMessage } from './protobuf-reader.ts'
import { InvalidCall, type RateLimitRequest, RateLimitRequestReader } from './rate-limit-request.ts'
import { RateLimitResponseWriter } from './rate-limit-response.ts'

/** `envoy.service.ratelimit.v3.RateLimitService`. `ignoredLimits` counts limits that callers send along. */
export function rateLimitMethods(pipeline: DecisionPipeline, ignoredLimits: Series): GrpcMethod[] {
  const requests = new RateLimitRequestReader()
  const responses = new RateLimitResponseWriter()

  function read(message: Uint8Array): RateLimitRequest | GrpcReply {
    try {
      return requests.read(message)
    } catch (error) {
      const isInvalid = error instanceof InvalidCall
      if (!isInvalid && !(error instanceof MalformedMessage)) return reply({ answer: pipeline.fail('rate_limit', error), statuses: [] })
      pipeline.refuse('rate_limit', 'bad_request', error.message)
      // As gRPC libraries have it, a message that cannot be read is status 13.
      return failed(isInvalid ? INVALID_ARGUMENT : INTERNAL, error.message)
    }
  }

  function reply({ answer, statuses }: LimitAnswer): GrpcReply {
    const { refusal } = answer
    if (refusal !== undefined) return failed(answer.status === 503 ? UNAVAILABLE : INTERNAL, refusal)
    return { status: OK, statusMessage: '', message: responses.write(answer, statuses) }
  }

  return [
    {
      path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
      isStreaming: false,
      isTraced: pipeline.isTraced,
      handle(message, call) {
        if (call.isOver) return EXPIRED
        const request = read(message)
        if ('status' in request) return request
        ignoredLimits.count += request.ignoredLimits
        const answer = pipeline.decideDescriptors(request, call.traceparent)
        return answer instanceof Promise ? answer.then(reply) : reply(answer)
      },
    },
  ]
}
