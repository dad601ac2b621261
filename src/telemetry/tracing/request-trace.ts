import { type Attributes, type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api'
import type { Usage } from '../../costs/cost.ts'
import type { Allowed, Rejected } from '../../engine/decision.ts'
import type { SentRequest } from '../../engine/evaluation.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { LlmRequest } from '../../llm/llm-request.ts'
import { normalizePath } from '../../text/path.ts'
import type { Clock } from '../../time/clock.ts'

export interface RequestTraceParts {
  readonly tracer: Tracer
  readonly clock: SpanClock
}

/** A call to a backend of a route. */
interface TracedAttempt {
  readonly choice: { readonly backend: { readonly name: string } }
  /** The model that replaces the request's. */
  readonly modelSent: string | undefined
  /** Its number, from 1. */
  readonly count: number
}

/** How a trace continues in the backend. */
export interface OutgoingTrace {
  readonly traceparent: string
  /** Whether the trace began here, so that a `tracestate` in the request belongs to no trace (W3C Trace Context 3.3.1.4). */
  readonly isNew: boolean
}

/** The spans of one proxied request: its own, and below it those of its decision and of the call to the backend. */
export class RequestTrace {
  readonly #parts: RequestTraceParts
  readonly #request: TracedRequest
  readonly #isNew: boolean
  readonly #context: Context
  readonly #span: Span
  /** Span of the call to the backend, once that has begun. */
  #call: Span | undefined
  /** The status of the last response, until it is known whether the client gets that one. */
  #backendStatus: number | undefined
  #isDecided = false
  #endsWhenSettled = false
  #isOver = false

  constructor(parts: RequestTraceParts, request: TracedRequest, parent: Context) {
    const { tracer, clock } = parts
    this.#parts = parts
    this.#request = request
    this.#isNew = parent === ROOT_CONTEXT
    const attributes = { ...requestAttributes(request), 'url.scheme': 'http' }
    const options = { kind: SpanKind.SERVER, attributes, startTime: clock.nowMs() }
    this.#span = tracer.startSpan(methodName(request.method), options, parent)
    this.#context = trace.setSpan(parent, this.#span)
  }

  get traceId(): string {
    return this.#span.spanContext().traceId
  }

  startDecision(): DecisionSpan {
    const { tracer, clock } = this.#parts
    const attributes = { 'edge.door': 'proxy' }
    return new DecisionSpan(tracer.startSpan('decision', { attributes, startTime: clock.nowMs() }, this.#context), clock)
  }

  noteDecision(answer: TracedAnswer): void {
    this.#isDecided = true
    this.#span.setAttributes(decisionAttributes(answer))
  }

  /** Notes how long the request waited for rules before it was decided. */
  noteWait(ms: number): void {
    if (!this.#isOver) this.#span.setAttribute('edge.wait_ms', Math.round(ms))
  }

  /** Notes what was read from the body. */
  noteBody({ model }: LlmRequest): void {
    this.#span.setAttributes({ 'gen_ai.request.model': model })
  }

  /** Begins the span of a call to this backend. `attempt` is given if a route named the backend. */
  startCall(llm: LlmRequest | undefined, backend: URL, attempt?: TracedAttempt): OutgoingTrace {
    const { tracer, clock } = this.#parts
    const { method } = this.#request
    const sent = llm && { ...llm, model: attempt?.modelSent ?? llm.model }
    const attributes = {
      ...requestAttributes(this.#request),
      'server.address': backend.hostname,
      'server.port': Number(backend.port || (backend.protocol === 'https:' ? 443 : 80)),
      ...(attempt && { 'edge.backend': attempt.choice.backend.name, 'edge.attempt': attempt.count }),
      ...(sent && llmAttributes(this.#request, sent)),
    }
    this.#call = tracer.startSpan(methodName(method), { kind: SpanKind.CLIENT, attributes, startTime: clock.nowMs() }, this.#context)
    const { traceId, spanId } = this.#call.spanContext()
    return { traceparent: `00-${traceId}-${spanId}-01`, isNew: this.#isNew }
  }

  noteRetry(reason: string): void {
    this.#call?.addEvent('retry', { 'error.type': reason }, this.#parts.clock.nowMs())
  }

  /** Notes that the head of the backend's response has arrived. */
  noteResponse(status: number): void {
    this.#call?.setAttribute('http.response.status_code', status).addEvent('response_head', this.#parts.clock.nowMs())
    if (status >= 400) this.#call?.setAttribute('error.type', String(status)).setStatus({ code: SpanStatusCode.ERROR })
    this.#backendStatus = status
  }

  /** Ends the span of a call, because the request goes to another backend: what this one has sent reaches nobody. */
  leaveCall(reason: string): void {
    const type = this.#backendStatus === undefined ? reason : String(this.#backendStatus)
    this.noteRetry(type)
    this.#call?.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR }).end(this.#parts.clock.nowMs())
    this.#call = undefined
    this.#backendStatus = undefined
  }

  /** Notes where a request with a route was sent. */
  noteSent({ answeredBy, calls }: SentRequest): void {
    if (!this.#isOver) this.#span.setAttributes({ 'edge.backend': answeredBy, 'edge.attempts': calls.length })
  }

  /** Notes the token usage, and how the response ended. Tokens are on one span only, so that sums over spans are right. */
  noteSettlement(end: string, usage: Usage): void {
    if (this.#isOver) return
    const tokens = typeof usage === 'string' ? undefined : usage.tokens
    this.#call?.setAttributes({
      'edge.llm.end': end,
      'gen_ai.usage.input_tokens': tokens?.input,
      'gen_ai.usage.output_tokens': tokens?.output,
    })
    if (this.#endsWhenSettled) this.end()
  }

  noteFailure(reason: string): void {
    if (this.#isOver) return
    this.#noteBackendStatus()
    for (const span of [this.#span, this.#call]) span?.setAttribute('error.type', reason).setStatus({ code: SpanStatusCode.ERROR })
  }

  /** Notes that the client left before it had the whole response. */
  noteGone(): void {
    if (!this.#isOver) this.#span.addEvent('client_gone', this.#parts.clock.nowMs())
  }

  /** Notes that we responded in place of the backend. */
  respond(status: number, reason: string): void {
    if (this.#isOver) return
    if (!this.#isDecided) this.#span.setAttributes({ 'edge.action': 'refuse', 'edge.reason': reason })
    this.#backendStatus = undefined
    this.#noteStatus(status, reason)
    this.end()
  }

  /** Called when the client has the whole response, but its usage is not known yet. */
  endWhenSettled(): void {
    this.#endsWhenSettled = true
  }

  /** Ends the spans. Anything noted later is ignored. */
  end(): void {
    if (this.#isOver) return
    this.#noteBackendStatus()
    this.#isOver = true
    const nowMs = this.#parts.clock.nowMs()
    this.#call?.end(nowMs)
    this.#span.end(nowMs)
  }

  /** The status of a response counts for the request once it is known that the client gets that one. */
  #noteBackendStatus(): void {
    if (this.#backendStatus !== undefined) this.#noteStatus(this.#backendStatus, String(this.#backendStatus))
    this.#backendStatus = undefined
  }

  #noteStatus(status: number, errorType: string): void {
    this.#span.setAttribute('http.response.status_code', status)
    if (status >= 500) this.#span.setAttribute('error.type', errorType).setStatus({ code: SpanStatusCode.ERROR })
  }
}

/** The span of one decision. */
export class DecisionSpan {
  readonly #span: Span
  readonly #clock: SpanClock

  constructor(span: Span, clock: SpanClock) {
    this.#span = span
    this.#clock = clock
  }

  /** Adds the original request. */
  note(request: TracedRequest): void {
    this.#span.setAttributes(requestAttributes(request))
  }

  end(answer: TracedAnswer): void {
    this.#span.setAttributes({ ...decisionAttributes(answer), 'http.response.status_code': answer.status })
    // A reject is a normal outcome, not an error.
    if (answer.status >= 500) this.#span.setAttributes({ 'error.type': answer.refusal }).setStatus({ code: SpanStatusCode.ERROR })
    this.#span.end(this.#clock.nowMs())
  }
}

/** The parts of an answer that spans report. */
interface TracedAnswer {
  readonly status: number
  readonly decision: Allowed | Rejected | undefined
  readonly refusal: Reason | undefined
}

/** The parts of a request that spans report: never its query, a header field or a caller's value. */
export interface TracedRequest {
  readonly method: string
  readonly uri: string
}

/** Methods that OpenTelemetry's conventions know. Any other text could be a caller's own. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'])

/** Returns the name of a span. */
function methodName(method: string): string {
  return METHODS.has(method) ? method : 'HTTP'
}

export function requestAttributes({ method, uri }: TracedRequest): Attributes {
  return { 'http.request.method': METHODS.has(method) ? method : '_OTHER', 'url.path': pathOf(uri) }
}

/** Longer texts are cut to this many characters. */
export const MAX_TEXT = 256

/** Copies the path, because spans wait to be sent, and a slice would keep the whole target and its query in memory. */
function pathOf(uri: string): string {
  return uri === '*' ? uri : Buffer.from(normalizePath(uri).slice(0, MAX_TEXT)).toString()
}

/** The operations that OpenTelemetry's conventions name, by how the path of their API ends. */
const OPERATIONS: readonly (readonly [string, string])[] = [
  ['/chat/completions', 'chat'],
  ['/messages', 'chat'],
  ['/responses', 'chat'],
  ['/completions', 'text_completion'],
  ['/embeddings', 'embeddings'],
  [':generateContent', 'generate_content'],
  [':streamGenerateContent', 'generate_content'],
  [':embedContent', 'embeddings'],
  [':batchEmbedContents', 'embeddings'],
  [':rawPredict', 'chat'],
  [':streamRawPredict', 'chat'],
]

/** Returns what the body asks for. */
function llmAttributes({ uri }: TracedRequest, { model, requestedTokens }: LlmRequest): Attributes {
  const path = normalizePath(uri)
  return {
    'gen_ai.operation.name': OPERATIONS.find(([end]) => path.endsWith(end))?.[1],
    'gen_ai.request.model': model,
    'gen_ai.request.max_tokens': requestedTokens,
  }
}

function decisionAttributes({ decision, refusal }: TracedAnswer): Attributes {
  if (decision === undefined) return { 'edge.action': 'refuse', 'edge.reason': refusal }
  const { action, reason, policy, rule } = decision
  return { 'edge.action': action, 'edge.reason': reason, 'edge.policy': policy?.id, 'edge.rule': rule?.name }
}

/** Unix time with fractions of a millisecond, which the wall clock lacks. */
export class SpanClock {
  readonly #clock: Clock
  /** Difference from the monotonic clock to Unix time. */
  #offsetMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The wall clock drops fractions, so the largest offset seen is nearest to the truth. If it is smaller by a millisecond, the clock was set back. */
  nowMs(): number {
    const nowMs = this.#clock.nowMs()
    const offsetMs = this.#clock.wallMs() - nowMs
    if (offsetMs > this.#offsetMs || offsetMs <= this.#offsetMs - 1) this.#offsetMs = offsetMs
    return nowMs + this.#offsetMs
  }
}
