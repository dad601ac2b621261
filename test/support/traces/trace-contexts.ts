import { randomBytes } from 'node:crypto'

/** A caller's span, and the field that names it. */
export interface CallerSpan {
  readonly traceId: string
  readonly spanId: string
  readonly traceparent: string
}

export function callerSpan(flags = '01'): CallerSpan {
  const traceId = randomBytes(16).toString('hex')
  const spanId = randomBytes(8).toString('hex')
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` }
}
