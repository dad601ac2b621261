import { type Context, ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api'
import { parseTraceParent } from '@opentelemetry/core'

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
