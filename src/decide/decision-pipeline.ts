import { type DecideOptions, NO_OPTIONS, type OpenOptions } from '../engine/decide-options.ts'
import type { Decision } from '../engine/decision.ts'
import type { DescriptorStatus, LimitCall, LimitResult } from '../engine/descriptors/descriptor-call.ts'
import type { Engine } from '../engine/engine.ts'
import type { Reason } from '../engine/reasons.ts'
import type { Plan } from '../policy/plan.ts'
import type { RequestView } from '../request/view.ts'
import type { Reservations } from '../reservations/reservations.ts'
import type { DebugSessions } from '../sessions/debug-sessions.ts'
import type { DecisionSpan, RequestTrace } from '../telemetry/tracing/request-trace.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import type { DecisionAnswer, RefusedAnswer } from './decision-answer.ts'
import { DecisionRecorder, type RecorderParts } from './decision-recorder.ts'
import { PendingDecision, type PendingDecisionParts } from './pending-decision.ts'
import { asksToSettle, type Door, hintedBody, type NoteDecided, type Question } from './question.ts'

export interface PipelineParts extends RecorderParts {
  readonly engine: Engine
  readonly debugSessions: DebugSessions | undefined
  /** What gateways may say beside the question; undefined in `reverse_proxy`, where clients would. */
  readonly gateway: GatewayParts | undefined
  /** Undefined where nobody keeps a record of requests. */
  readonly noteDecided?: NoteDecided | undefined
  /** Undefined where nothing is traced. */
  readonly tracing?: Tracing | undefined
}

export interface GatewayParts {
  readonly reservations: Reservations
  /** Whether what they say about bodies counts. */
  readonly hasHints: boolean
}

/** The answer to a call of the rate limit service. */
export interface LimitAnswer {
  readonly answer: DecisionAnswer
  /** One for each descriptor; none where nothing was decided. */
  readonly statuses: readonly DescriptorStatus[]
}

/**
 * From a question to its answer: asks the engine, counts and logs the outcome. Every door is a thin front of this. It never throws
 * and never rejects: what breaks becomes an answer too.
 */
export class DecisionPipeline {
  readonly #parts: PipelineParts
  readonly #recorder: DecisionRecorder
  readonly #pendingParts: PendingDecisionParts
  /** Filled anew for each question: the engine reads it before it returns. */
  readonly #options: DecisionOptions = {
    withDescriptors: false,
    given: undefined,
    isSettledLater: false,
    looks: false,
    body: undefined,
    nowMs: 0,
  }

  constructor(parts: PipelineParts) {
    this.#parts = parts
    this.#recorder = new DecisionRecorder(parts)
    this.#pendingParts = { recorder: this.#recorder, clock: parts.clock, noteDecided: parts.noteDecided }
  }

  /** Decides in one step. Returns at once where the engine does; until then the question must stay as it is. */
  decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    const { tracing } = this.#parts
    return tracing === undefined ? this.#answer(question, undefined) : this.#trace(question, tracing)
  }

  /** Decides a call of the rate limit service in one step. `traceparent` is what came with the call. */
  decideDescriptors(call: LimitCall, traceparent?: string): LimitAnswer | Promise<LimitAnswer> {
    const span = this.#parts.tracing?.startDecision('rate_limit', traceparent)
    const result = this.#answerDescriptors(call)
    if (span === undefined) return result
    if (result instanceof Promise) return result.then((later) => endedLimits(span, later))
    return endedLimits(span, result)
  }

  /** Whether anybody needs a `traceparent`. */
  get isTraced(): boolean {
    return this.#parts.tracing !== undefined
  }

  #trace(question: Question, tracing: Tracing): DecisionAnswer | Promise<DecisionAnswer> {
    let span: DecisionSpan | undefined
    try {
      span = tracing.startDecision(question.door, question.traceparent())
    } catch (error) {
      return this.fail(question.door, error)
    }
    const answer = this.#answer(question, span)
    if (span === undefined) return answer
    return answer instanceof Promise ? answer.then((later) => ended(span, later)) : ended(span, answer)
  }

  #answer(question: Question, span: DecisionSpan | undefined): DecisionAnswer | Promise<DecisionAnswer> {
    try {
      const answer = this.#decide(question, span)
      return answer instanceof Promise ? answer.catch((error: unknown) => this.fail(question.door, error)) : answer
    } catch (error) {
      return this.fail(question.door, error)
    }
  }

  #answerDescriptors(call: LimitCall): LimitAnswer | Promise<LimitAnswer> {
    const { engine, clock } = this.#parts
    const startMs = clock.nowMs()
    try {
      const result = engine.decideDescriptors(call, startMs)
      if (!(result instanceof Promise)) return this.#concludeLimits(result, startMs)
      return result.then(
        (later) => this.#concludeLimits(later, startMs),
        (error: unknown) => ({ answer: this.fail('rate_limit', error), statuses: [] }),
      )
    } catch (error) {
      return { answer: this.fail('rate_limit', error), statuses: [] }
    }
  }

  /**
   * For doors that decide in several steps, because a body may have to be read in between. `cookie` may name a debug session. `trace` is
   * the request's, where it is traced.
   */
  open(door: Door, view: RequestView, cookie: string | undefined, trace?: RequestTrace): PendingDecision | RefusedAnswer {
    const { engine, debugSessions } = this.#parts
    try {
      const isDebug = debugSessions?.isActive(cookie) ?? false
      const evaluation = engine.open(view, isDebug ? WITH_DESCRIPTORS : NO_OPTIONS)
      if (evaluation === undefined) return this.refuse(door, 'no_bundle_loaded')
      return new PendingDecision(this.#pendingParts, door, evaluation, isDebug, view, trace)
    } catch (error) {
      return this.fail(door, error)
    }
  }

  /** A door cannot even ask. `detail` is for the log. */
  refuse(door: Door, reason: Reason, detail?: string): RefusedAnswer {
    return this.#recorder.refuse(door, reason, detail)
  }

  /** A door's own code failed. The client learns that it did, the log learns why. */
  fail(door: Door, error: unknown): RefusedAnswer {
    return this.#recorder.fail(door, error)
  }

  /** The same where the question was decided, and is counted already. */
  failDecided(error: unknown): RefusedAnswer {
    return this.#recorder.failDecided(error)
  }

  /** The same where the client already has its response, or a part of it. */
  logFailure(error: unknown): void {
    this.#recorder.logFailure(error)
  }

  #decide(question: Question, span: DecisionSpan | undefined): DecisionAnswer | Promise<DecisionAnswer> {
    const { engine, clock, debugSessions, gateway, noteDecided } = this.#parts
    const { plan } = engine
    const { door } = question
    if (plan === undefined) return this.refuse(door, 'no_bundle_loaded')
    const view = question.original()
    if (typeof view === 'string') return this.refuse(door, view)
    span?.note(view)
    const isDebug = debugSessions?.isActive(question.cookie()) ?? false
    const startMs = clock.nowMs()
    const options = this.#options
    options.withDescriptors = isDebug
    options.nowMs = startMs
    const mayReadMore = gateway !== undefined && (plan.hasSettledCosts || plan.needsBody)
    if (mayReadMore) this.#readGateway(view, plan, gateway)
    const reservations = mayReadMore && options.isSettledLater ? gateway.reservations : undefined
    const decision = engine.decide(view, options)
    const body = mayReadMore ? options.body : undefined
    if (decision instanceof Promise) {
      return decision.then((later) => {
        const answer = this.#conclude(door, later, startMs, isDebug, reservations)
        if (noteDecided !== undefined && later.action !== 'refuse') noteDecided(view, body)
        return answer
      })
    }
    const answer = this.#conclude(door, decision, startMs, isDebug, reservations)
    if (noteDecided !== undefined && decision.action !== 'refuse') noteDecided(view, body)
    return answer
  }

  #concludeLimits({ decision, statuses }: LimitResult, startMs: number): LimitAnswer {
    return { answer: this.#recorder.conclude('rate_limit', decision, startMs, false), statuses }
  }

  #readGateway(view: RequestView, plan: Plan, { hasHints }: GatewayParts): void {
    this.#options.isSettledLater = plan.hasSettledCosts && asksToSettle(view)
    this.#options.body = hintedBody(view, plan, hasHints)
  }

  #conclude(door: Door, decision: Decision, startMs: number, isDebug: boolean, reservations: Reservations | undefined): DecisionAnswer {
    const answer = this.#recorder.conclude(door, decision, startMs, isDebug)
    if (reservations === undefined || decision.action !== 'allow' || decision.reservation === undefined) return answer
    try {
      return { ...answer, reservation: reservations.issue(decision.reservation) } as DecisionAnswer
    } catch (error) {
      return this.failDecided(error)
    }
  }
}

const WITH_DESCRIPTORS: OpenOptions = { ...NO_OPTIONS, withDescriptors: true }

function ended(span: DecisionSpan, answer: DecisionAnswer): DecisionAnswer {
  span.end(answer)
  return answer
}

function endedLimits(span: DecisionSpan, result: LimitAnswer): LimitAnswer {
  span.end(result.answer)
  return result
}

type DecisionOptions = { -readonly [Name in keyof Required<OpenOptions & DecideOptions>]: (OpenOptions & DecideOptions)[Name] }
