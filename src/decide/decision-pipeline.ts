import { type DecideOptions, NO_OPTIONS, type OpenOptions } from '../engine/decide-options.ts'
import type { Allowed, Decision } from '../engine/decision.ts'
import type { DescriptorStatus, LimitCall, LimitResult } from '../engine/descriptors/descriptor-call.ts'
import type { Engine } from '../engine/engine.ts'
import type { Reason } from '../engine/reasons.ts'
import type { WaitingLines } from '../engine/waiting-lines.ts'
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
  /** Serves the fields that gateways may add to a question; undefined in `reverse_proxy`, where they would come from clients. */
  readonly gateway: GatewayParts | undefined
  /** Undefined if decided requests are not logged. */
  readonly noteDecided?: NoteDecided | undefined
  /** Whether the proxy has a backend for requests without a route: true by default. */
  readonly hasLastResort?: boolean | undefined
  /** Undefined if tracing is off. */
  readonly tracing?: Tracing | undefined
}

export interface GatewayParts {
  readonly reservations: Reservations
  /** Whether their header fields about bodies are used. */
  readonly hasHints: boolean
}

/** The answer to a call of the rate limit service. */
export interface LimitAnswer {
  readonly answer: DecisionAnswer
  /** One for each descriptor; none if nothing was decided. */
  readonly statuses: readonly DescriptorStatus[]
}

/**
 * The way from a question to its answer: asks the engine, counts and logs the outcome. Every door is a thin layer over this. It never throws and never
 * rejects, because failures become answers too.
 */
export class DecisionPipeline {
  readonly #parts: PipelineParts
  readonly #recorder: DecisionRecorder
  readonly #pendingParts: PendingDecisionParts
  /** Reused for every question, which is safe because the engine reads it before it returns. */
  readonly #options: DecisionOptions = {
    withDescriptors: false,
    given: undefined,
    isSettledLater: false,
    looks: false,
    caller: undefined,
    lines: undefined,
    body: undefined,
    nowMs: 0,
  }

  constructor(parts: PipelineParts) {
    this.#parts = parts
    this.#recorder = new DecisionRecorder(parts)
    const { clock, noteDecided, hasLastResort = true } = parts
    this.#pendingParts = { recorder: this.#recorder, clock, noteDecided, hasLastResort }
  }

  /** Decides in one step. Returns a promise only if the engine does; until that resolves, the question must not change. */
  decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    const { tracing } = this.#parts
    return tracing === undefined ? this.#answer(question, undefined) : this.#trace(question, tracing)
  }

  /** Decides a call of the rate limit service in one step. `traceparent` is the field that came with the call. */
  decideDescriptors(call: LimitCall, traceparent?: string): LimitAnswer | Promise<LimitAnswer> {
    const span = this.#parts.tracing?.startDecision('rate_limit', traceparent)
    const result = this.#answerDescriptors(call)
    if (span === undefined) return result
    if (result instanceof Promise) return result.then((later) => endedLimits(span, later))
    return endedLimits(span, result)
  }

  /** Whether a `traceparent` is needed at all. */
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
   * Opens a decision in several steps, for doors that may have to read a body in between. `cookie` may contain a debug session. `trace` belongs to the
   * request, if it is traced. `lines` are the requests that wait, if this one may wait too.
   */
  open(
    door: Door,
    view: RequestView,
    cookie: string | undefined,
    trace?: RequestTrace,
    lines?: WaitingLines,
  ): PendingDecision | RefusedAnswer {
    const { engine, debug, debugSessions } = this.#parts
    try {
      const isDebug = debugSessions?.isActive(cookie) ?? false
      const options = isDebug || debug !== undefined ? WITH_DESCRIPTORS : NO_OPTIONS
      const evaluation = engine.open(view, lines === undefined ? options : { ...options, lines })
      if (evaluation === undefined) return this.refuse(door, 'no_bundle_loaded')
      return new PendingDecision(this.#pendingParts, door, evaluation, isDebug, view, trace)
    } catch (error) {
      return this.fail(door, error)
    }
  }

  /** Answers a request that a door cannot even ask about. `detail` is for the log. */
  refuse(door: Door, reason: Reason, detail?: string): RefusedAnswer {
    return this.#recorder.refuse(door, reason, detail)
  }

  /** Answers after a door's own code failed. The client learns only that it failed; the log has the cause. */
  fail(door: Door, error: unknown): RefusedAnswer {
    return this.#recorder.fail(door, error)
  }

  /** Answers after a failure like `fail`, for a question that was decided and counted already. */
  failDecided(error: unknown): RefusedAnswer {
    return this.#recorder.failDecided(error)
  }

  /** Logs a failure for which the client already has its response, or part of it. */
  logFailure(error: unknown): void {
    this.#recorder.logFailure(error)
  }

  #decide(question: Question, span: DecisionSpan | undefined): DecisionAnswer | Promise<DecisionAnswer> {
    const { engine, clock, debug, debugSessions, gateway, noteDecided } = this.#parts
    const { plan } = engine
    const { door } = question
    if (plan === undefined) return this.refuse(door, 'no_bundle_loaded')
    const view = question.original()
    if (typeof view === 'string') return this.refuse(door, view)
    span?.note(view)
    const isDebug = debugSessions?.isActive(question.cookie()) ?? false
    const startMs = clock.nowMs()
    const options = this.#options
    options.withDescriptors = isDebug || debug !== undefined
    options.nowMs = startMs
    const mayReadMore = gateway !== undefined && (plan.hasSettledCosts || plan.needsBody)
    if (mayReadMore) this.#readGateway(view, plan, gateway)
    const reservations = mayReadMore && options.isSettledLater ? gateway.reservations : undefined
    const decision = engine.decide(view, options)
    const body = mayReadMore ? options.body : undefined
    if (decision instanceof Promise) {
      return decision.then((later) => {
        const answer = this.#conclude(door, later, startMs, isDebug, reservations)
        if (noteDecided !== undefined && later.action !== 'refuse') noteDecided(view, body, later.caller)
        return answer
      })
    }
    const answer = this.#conclude(door, decision, startMs, isDebug, reservations)
    if (noteDecided !== undefined && decision.action !== 'refuse') noteDecided(view, body, decision.caller)
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
    if (decision.action !== 'allow') return answer
    const removedFields = fieldsToRemove(door, decision)
    const { reservation } = decision
    if (removedFields === undefined && (reservations === undefined || reservation === undefined)) return answer
    try {
      const token = reservation && reservations?.issue(reservation)
      return { ...answer, reservation: token, removedFields } as DecisionAnswer
    } catch (error) {
      return this.failDecided(error)
    }
  }
}

/** Envoy can be told which fields not to forward: those with an issued key, which the backend could use. Other gateways must know it themselves. */
function fieldsToRemove(door: Door, { caller }: Allowed): readonly string[] | undefined {
  const keyFields = caller?.keyFields
  const isEnvoy = keyFields !== undefined && (door === 'ext_authz' || door === 'ext_authz_grpc')
  return isEnvoy && keyFields.length > 0 ? keyFields : undefined
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
