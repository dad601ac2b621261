import { hostname } from 'node:os'
import { type Context, ROOT_CONTEXT, SpanKind, TraceFlags, type Tracer, trace } from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'
import { detectResources, envDetector, type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOnSampler, TracerProvider } from '@opentelemetry/sdk-trace'
import { VERSION } from '../../files/package-files.ts'
import type { Clock } from '../../time/clock.ts'
import { DecisionSpan, MAX_TEXT, RequestTrace, SpanClock, type TracedRequest } from './request-trace.ts'
import { SpanSender, type SpanSenderParts } from './span-sender.ts'

export interface TracingOptions extends Omit<SpanSenderParts, 'nowMs'> {
  readonly clock: Clock
  /** Share of requests that are traced among those that their caller does not trace, from 0 to 1. */
  readonly share: number
}

/**
 * Makes the spans of one worker with OpenTelemetry's SDK. Nothing is registered globally, and parents are passed explicitly: a context manager
 * would slow down everything asynchronous.
 */
export class Tracing {
  readonly #share: number
  readonly #tracer: Tracer
  readonly #clock: SpanClock
  readonly #sender: SpanSender

  constructor(options: TracingOptions) {
    const { clock, share } = options
    this.#clock = new SpanClock(clock)
    this.#share = share
    this.#sender = new SpanSender({ ...options, nowMs: () => clock.nowMs() })
    const provider = new TracerProvider({
      resource: thisInstance(),
      // Only what is to be traced reaches the tracer.
      sampler: new AlwaysOnSampler(),
      spanProcessors: [this.#sender],
      spanLimits: { attributeValueLengthLimit: MAX_TEXT },
    })
    this.#tracer = provider.getTracer('edge', VERSION)
  }

  /** Starts the span of a decision that a gateway asks for, or returns undefined if it is not traced. Only a string is a valid `traceparent`. */
  startDecision(door: string, traceparent: unknown): DecisionSpan | undefined {
    const parent = sampledParent(traceparent, this.#share)
    if (parent === undefined) return undefined
    const options = { kind: SpanKind.SERVER, attributes: { 'edge.door': door }, startTime: this.#clock.nowMs() }
    return new DecisionSpan(this.#tracer.startSpan('decision', options, parent), this.#clock)
  }

  /** Starts the spans of a proxied request, or returns undefined if it is not traced. */
  startRequest(request: TracedRequest, traceparent: unknown): RequestTrace | undefined {
    const parent = sampledParent(traceparent, this.#share)
    return parent && new RequestTrace({ tracer: this.#tracer, clock: this.#clock }, request, parent)
  }

  /** Sends the remaining spans, as far as time allows. */
  close(withinMs: number): Promise<void> {
    return this.#sender.close(withinMs)
  }
}

/** Describes this instance. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence. */
function thisInstance(): Resource {
  const own = { 'service.name': 'edge', 'service.version': VERSION, 'service.instance.id': `${hostname()}:${process.pid}` }
  return resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] }))
}

/**
 * Returns the parent of a request's span, or undefined if the request is not traced. Requests that their caller traces are always traced, and
 * the given share of all others. With a valid `traceparent` the span belongs below the caller's span, otherwise it begins a trace. A repeated
 * field is not a string and therefore invalid (W3C Trace Context 3.2).
 *
 * The SDK's own samplers need an id first, which takes a hundred times as long as drawing a random number.
 */
export function sampledParent(traceparent: unknown, share: number): Context | undefined {
  const parent = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null
  const isTracedByCaller = parent !== null && (parent.traceFlags & TraceFlags.SAMPLED) !== 0
  if (!isTracedByCaller && Math.random() >= share) return undefined
  if (parent === null) return ROOT_CONTEXT
  return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: TraceFlags.SAMPLED, isRemote: true })
}
