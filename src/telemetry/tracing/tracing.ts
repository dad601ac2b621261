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
  /** Of the requests that their caller does not trace, the share that is traced. */
  readonly share: number
}

/**
 * The spans of one worker, by OpenTelemetry's SDK. Nothing is registered globally, and parents are passed on by hand: a context manager
 * would slow down everything that is asynchronous.
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
      // What comes to the tracer is to be traced.
      sampler: new AlwaysOnSampler(),
      spanProcessors: [this.#sender],
      spanLimits: { attributeValueLengthLimit: MAX_TEXT },
    })
    this.#tracer = provider.getTracer('edge', VERSION)
  }

  /** Of a decision that a gateway asks for; undefined where it is not traced. `traceparent` is a field's value, or anything else. */
  startDecision(door: string, traceparent: unknown): DecisionSpan | undefined {
    const parent = sampledParent(traceparent, this.#share)
    if (parent === undefined) return undefined
    const options = { kind: SpanKind.SERVER, attributes: { 'edge.door': door }, startTime: this.#clock.nowMs() }
    return new DecisionSpan(this.#tracer.startSpan('decision', options, parent), this.#clock)
  }

  /** Of a proxied request; undefined where it is not traced. */
  startRequest(request: TracedRequest, traceparent: unknown, backend: URL): RequestTrace | undefined {
    const parent = sampledParent(traceparent, this.#share)
    return parent && new RequestTrace({ tracer: this.#tracer, clock: this.#clock, backend }, request, parent)
  }

  /** Sends what is left, as far as there is time. */
  close(withinMs: number): Promise<void> {
    return this.#sender.close(withinMs)
  }
}

/** OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win. */
function thisInstance(): Resource {
  const own = { 'service.name': 'edge', 'service.version': VERSION, 'service.instance.id': `${hostname()}:${process.pid}` }
  return resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] }))
}

/**
 * What the span of a request belongs to; undefined: it is not traced. Requests are traced that their caller traces, and of all others the
 * given share: below the caller's span if they have a valid `traceparent`, else as the beginning of a trace. A field that is repeated, and
 * so no text, is no valid one (W3C Trace Context 3.2).
 *
 * The SDK's own samplers want an id first, which takes a hundred times as long as drawing a number.
 */
export function sampledParent(traceparent: unknown, share: number): Context | undefined {
  const parent = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null
  const isTracedByCaller = parent !== null && (parent.traceFlags & TraceFlags.SAMPLED) !== 0
  if (!isTracedByCaller && Math.random() >= share) return undefined
  if (parent === null) return ROOT_CONTEXT
  return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: TraceFlags.SAMPLED, isRemote: true })
}
