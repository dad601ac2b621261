import type { BodyFacts, BodyNeed } from '../engine/decide-options.ts'
import type { Decision } from '../engine/decision.ts'
import type { ChosenRoute, Evaluation, SentRequest } from '../engine/evaluation.ts'
import type { Reason } from '../engine/reasons.ts'
import type { CallerVerdict } from '../request/caller.ts'
import type { RequestView } from '../request/view.ts'
import type { DecisionSpan, RequestTrace } from '../telemetry/tracing/request-trace.ts'
import type { Clock } from '../time/clock.ts'
import { type DecisionSteps, routeOf, type UnreadBody } from './decide-in-steps.ts'
import { type DecisionAnswer, decidedAnswer, type RefusedAnswer } from './decision-answer.ts'
import type { DecisionRecorder } from './decision-recorder.ts'
import type { Door, NoteDecided } from './question.ts'

export interface PendingDecisionParts {
  readonly recorder: DecisionRecorder
  readonly clock: Clock
  readonly noteDecided: NoteDecided | undefined
  /** Whether requests without a route have somewhere to go. */
  readonly hasLastResort: boolean
}

interface UnnotedRequest {
  readonly body: BodyFacts
  readonly caller: CallerVerdict | undefined
  readonly decidedAtMs: number
}

/** A request that is being decided in several steps. Like the pipeline, it never throws and never rejects. */
export class PendingDecision implements DecisionSteps {
  readonly #parts: PendingDecisionParts
  readonly #door: Door
  readonly #evaluation: Evaluation
  /** Whether the request has a debug session. */
  readonly isDebug: boolean
  readonly #view: RequestView
  /** Trace of the request, if it is traced. */
  readonly #trace: RequestTrace | undefined
  /** Where the request goes; undefined if the bundle has no routes, or none covers it. */
  chosen: ChosenRoute | undefined
  #startMs: number
  /** What remains to be noted of an allowed request, until it is known which backend answers it. */
  #unnoted: UnnotedRequest | undefined
  /** Span of the step in progress. */
  #span: DecisionSpan | undefined

  constructor(
    parts: PendingDecisionParts,
    door: Door,
    evaluation: Evaluation,
    isDebug: boolean,
    view: RequestView,
    trace: RequestTrace | undefined,
  ) {
    this.#parts = parts
    this.#door = door
    this.#evaluation = evaluation
    this.isDebug = isDebug
    this.#view = view
    this.#trace = trace
    this.#startMs = parts.clock.nowMs()
  }

  identify(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined> {
    try {
      const ended = this.#evaluation.identify(this.#startMs)
      if (!(ended instanceof Promise)) return ended && this.#concludeEarly(ended)
      return ended.then((later) => this.#afterWait(later)).catch((error: unknown) => this.#fail(error))
    } catch (error) {
      return this.#fail(error)
    }
  }

  routeNeedsBody(): boolean | DecisionAnswer {
    try {
      return this.#evaluation.routeNeedsBody()
    } catch (error) {
      return this.#fail(error)
    }
  }

  route(body: UnreadBody, facts: BodyFacts): DecisionAnswer | undefined {
    try {
      const found = routeOf(this.#evaluation, this.#parts.hasLastResort, body, facts)
      if (found !== undefined && 'action' in found) return this.#concludeEarly(found)
      this.chosen = found
      return undefined
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Whether the body must be read before `decide`. */
  needsBody(): BodyNeed | DecisionAnswer {
    try {
      return this.#evaluation.needsBody(this.#startMs)
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Identifies the sender of a body that must be read, by alternating limit keys and values. */
  bodyCaller(): readonly string[] {
    return this.#evaluation.bodyCaller()
  }

  /** Returns the answer if the head alone decides it, otherwise undefined. Takes nothing. Returns a promise only if the engine does. */
  precheck(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined> {
    this.#span = this.#trace?.startDecision()
    try {
      const decision = this.#evaluation.precheck()
      if (!(decision instanceof Promise)) return decision && this.#conclude(decision, undefined)
      return decision.then((later) => later && this.#conclude(later, undefined)).catch((error: unknown) => this.#fail(error))
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Decides and takes as the last step, for callers that have not waited since they opened it. Returns a promise only if the engine does. */
  decide(): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#decide(undefined)
  }

  /** Decides like `decide`, with the facts from the body. The time it took to arrive does not count as decision time. */
  decideWithBody(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    this.#startMs = this.#parts.clock.nowMs()
    return this.#decide(body)
  }

  refuse(reason: Reason): RefusedAnswer {
    return this.#parts.recorder.refuse(this.#door, reason)
  }

  #decide(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    this.#span = this.#trace?.startDecision()
    try {
      const decision = this.#evaluation.decide({ body, nowMs: this.#startMs })
      if (!(decision instanceof Promise)) return this.#conclude(decision, body)
      return decision.then((later) => this.#conclude(later, body)).catch((error: unknown) => this.#fail(error))
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** To be called when it is known where an allowed request with a route was sent, or that it is sent nowhere. Only the first call counts. */
  noteSent(sent: SentRequest | undefined): void {
    const unnoted = this.#unnoted
    if (unnoted === undefined) return
    this.#unnoted = undefined
    this.#parts.noteDecided?.(this.#view, unnoted.body, unnoted.caller, sent, unnoted.decidedAtMs)
  }

  /** The time for which a credential waited for its keys does not count as decision time. */
  #afterWait(ended: Decision | undefined): DecisionAnswer | undefined {
    this.#startMs = this.#parts.clock.nowMs()
    return ended && this.#concludeEarly(ended)
  }

  #concludeEarly(decision: Decision): DecisionAnswer {
    this.#span = this.#trace?.startDecision()
    return this.#conclude(decision, undefined)
  }

  #conclude(decision: Decision, body: BodyFacts): DecisionAnswer {
    const { recorder, clock, noteDecided } = this.#parts
    // A request that waits is counted and logged when its wait is over, and only then has its decision a span.
    if (decision.action === 'reject' && decision.isWaiting) return decidedAnswer(decision, this.isDebug, 0)
    const answer = recorder.conclude(this.#door, decision, this.#startMs, this.isDebug)
    if (noteDecided !== undefined && decision.action !== 'refuse') {
      const isSent = decision.action === 'allow' && this.chosen !== undefined
      if (isSent) this.#unnoted = { body, caller: decision.caller, decidedAtMs: clock.wallMs() }
      else noteDecided(this.#view, body, decision.caller)
    }
    return this.#ended(answer)
  }

  #fail(error: unknown): DecisionAnswer {
    return this.#ended(this.#parts.recorder.fail(this.#door, error))
  }

  #ended(answer: DecisionAnswer): DecisionAnswer {
    this.#span?.end(answer)
    return answer
  }
}
