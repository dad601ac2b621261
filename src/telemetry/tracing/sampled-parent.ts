import { type Context, ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'

/**
 * What the span of a request belongs to; undefined: it is not traced. Requests are traced that their caller traces, and of those without a
 * valid `traceparent` the given share. What a caller does not trace is not traced here either. A field that is repeated, and so no text,
 * is no valid one (W3C Trace Context 3.2).
 *
 * The SDK's own samplers want an id first, which takes a hundred times as long as drawing a number.
 */
export function sampledParent(traceparent: unknown, share: number): Context | undefined {
  const parent = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null
  if (parent === null) return Math.random() < share ? ROOT_CONTEXT : undefined
  if ((parent.traceFlags & TraceFlags.SAMPLED) === 0) return undefined
  return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: TraceFlags.SAMPLED, isRemote: true })
}
