import { type Span, SpanStatusCode } from '@opentelemetry/api'
import { decisionAttributes, requestAttributes, type TracedAnswer, type TracedRequest } from './span-attributes.ts'
import type { SpanClock } from './span-clock.ts'

/** The span of one decision. */
export class DecisionSpan {
  readonly #span: Span
  readonly #clock: SpanClock

  constructor(span: Span, clock: SpanClock) {
    this.#span = span
    this.#clock = clock
  }

  /** The request that is asked about. */
  note(request: TracedRequest): void {
    this.#span.setAttributes(requestAttributes(request))
  }

  end(answer: TracedAnswer): void {
    this.#span.setAttributes({ ...decisionAttributes(answer), 'http.response.status_code': answer.status })
    // A reject is what was asked for, not an error.
    if (answer.status >= 500) this.#span.setAttributes({ 'error.type': answer.refusal }).setStatus({ code: SpanStatusCode.ERROR })
    this.#span.end(this.#clock.nowMs())
  }
}
