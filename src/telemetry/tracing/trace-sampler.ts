import { type Context, ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'
import { type IdGenerator, RandomIdGenerator, SamplingDecision, TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace'

/**
 * Decides which requests are traced: those that their caller traces, and of those without a valid `traceparent` a share, by their new
 * trace id. What a caller does not trace is not traced here either. It is also where the ids of spans come from.
 */
export class TraceSampler implements IdGenerator {
  readonly #share: number
  readonly #byId: TraceIdRatioBasedSampler
  readonly #ids = new RandomIdGenerator()
  /** Of the trace that begins next. */
  #traceId = ''

  constructor(share: number) {
    this.#share = share
    this.#byId = new TraceIdRatioBasedSampler(share)
  }

  /** What the span of a request belongs to; undefined: it is not traced. A field that is repeated is no valid one (W3C Trace Context 3.2). */
  parentOf(traceparent: unknown): Context | undefined {
    const parent = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null
    if (parent === null) return this.#draws() ? ROOT_CONTEXT : undefined
    if ((parent.traceFlags & TraceFlags.SAMPLED) === 0) return undefined
    return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: TraceFlags.SAMPLED, isRemote: true })
  }

  generateTraceId(): string {
    return this.#traceId
  }

  generateSpanId(): string {
    return this.#ids.generateSpanId()
  }

  #draws(): boolean {
    if (this.#share === 0) return false
    this.#traceId = this.#ids.generateTraceId()
    return this.#byId.shouldSample(ROOT_CONTEXT, this.#traceId).decision === SamplingDecision.RECORD_AND_SAMPLED
  }
}
