import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline, LimitAnswer } from '../../decide/decision-pipeline.ts'
import { resetSeconds } from '../../decide/rate-limit-fields.ts'
import type { RateLimit } from '../../engine/decision.ts'
import type { DescriptorStatus } from '../../engine/descriptors/descriptor-call.ts'
import type { LimitUnit } from '../../policy/stated-limit.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { EXPIRED, failed, type GrpcMethod, type GrpcReply, INTERNAL, INVALID_ARGUMENT, OK, UNAVAILABLE } from './grpc-method.ts'
import { MalformedMessage } from './protobuf-reader.ts'
import { ProtobufWriter } from './protobuf-writer.ts'
import { InvalidCall, type RateLimitRequest, RateLimitRequestReader } from './rate-limit-request.ts'

/** Methods of `envoy.service.ratelimit.v3.RateLimitService`. `ignoredLimits` counts the limits that callers send along. */
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
      // Like gRPC libraries, we answer a message that cannot be read with status 13 (INTERNAL).
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

/** Numbers of the field `response_headers_to_add`, and of the fields in each header. */
const HEADER = 3
const HEADER_KEY = 1
const HEADER_VALUE = 2
const CODE_OK = 1
const CODE_OVER_LIMIT = 2
const UNITS: Readonly<Record<LimitUnit, number>> = { second: 1, minute: 2, hour: 3, day: 4, month: 5, year: 6, week: 7 }
const MAX_UINT32 = 2 ** 32 - 1
/** Maximum of `google.protobuf.Duration`, about ten thousand years. */
const MAX_SECONDS = 315_576_000_000

/** Writes `envoy.service.ratelimit.v3.RateLimitResponse`. */
class RateLimitResponseWriter {
  readonly #writer = new ProtobufWriter()

  write(answer: DecisionAnswer, statuses: readonly DescriptorStatus[]): Uint8Array {
    const writer = this.#writer
    writer.clear()
    writer.number(1, answer.decision?.action === 'allow' ? CODE_OK : CODE_OVER_LIMIT)
    for (let i = 0; i < statuses.length; i++) this.#status(statuses[i]!)
    const { decision } = answer
    if (decision?.action === 'allow' && decision.limit !== undefined) this.#rateLimit(decision.limit)
    else {
      const headers = answerHeaders(answer)
      for (let i = 0; i < headers.length; i += 2) this.#header(headers[i]!, headers[i + 1]!)
    }
    return writer.finish()
  }

  /** Writes the fields that nearly all answers have. They equal those of `answerHeaders`, but need fewer strings. */
  #rateLimit(limit: RateLimit): void {
    const writer = this.#writer
    const remaining = `${limit.remaining}`
    const resetS = `${resetSeconds(limit)}`
    this.#header('RateLimit-Limit', limit.limitText)
    this.#header('RateLimit-Remaining', remaining)
    this.#header('RateLimit-Reset', resetS)
    if (limit.quotaText !== undefined) this.#header('RateLimit-Policy', `${limit.rule.policy.quotedId}${limit.quotaText}`)
    const header = writer.open(HEADER)
    writer.text(HEADER_KEY, 'RateLimit')
    const value = writer.open(HEADER_VALUE)
    writer.characters(limit.rule.policy.quotedId)
    writer.characters(';r=')
    writer.characters(remaining)
    writer.characters(';t=')
    writer.characters(resetS)
    writer.close(value)
    writer.close(header)
  }

  #header(name: string, value: string): void {
    const writer = this.#writer
    const header = writer.open(HEADER)
    writer.text(HEADER_KEY, name)
    writer.text(HEADER_VALUE, value)
    writer.close(header)
  }

  #status({ isOver, rule, stated, remaining, resetMs }: DescriptorStatus): void {
    const writer = this.#writer
    const status = writer.open(2)
    writer.number(1, isOver ? CODE_OVER_LIMIT : CODE_OK)
    if (stated !== undefined) {
      const limit = writer.open(2)
      writer.number(1, Math.min(stated.count, MAX_UINT32))
      writer.number(2, UNITS[stated.unit])
      writer.text(3, rule!.name)
      writer.close(limit)
    }
    if (remaining > 0) writer.number(3, Math.min(remaining, MAX_UINT32))
    if (stated !== undefined) {
      const duration = writer.open(4)
      writer.number(1, secondsOf(resetMs, isOver))
      writer.close(duration)
    }
    writer.close(status)
  }
}

/** Rounds up, like the RateLimit fields, to at least one second if the limit is exceeded. */
function secondsOf(resetMs: number, isOver: boolean): number {
  return Math.min(Math.max(Math.ceil(resetMs / 1000), isOver ? 1 : 0), MAX_SECONDS)
}
