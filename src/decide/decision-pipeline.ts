import type { Decision } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import type { DescriptorStatus, LimitCall, LimitResult } from '../engine/limit-call.ts'
import type { DecideOptions, OpenOptions } from '../engine/question.ts'
import type { Reason } from '../engine/reasons.ts'
import type { Plan } from '../policy/plan.ts'
import type { RequestView } from '../request/view.ts'
import type { Reservations } from '../reservations/reservations.ts'
import type { DebugSessions } from './debug-sessions.ts'
import type { DecisionAnswer, RefusedAnswer } from './decision-answer.ts'
import { DecisionRecorder, type RecorderParts } from './decision-recorder.ts'
import type { Door } from './door.ts'
import { asksToSettle, hintedBody } from './gateway-fields.ts'
import type { NoteDecided } from './note-decided.ts'
import { PendingDecision } from './pending-decision.ts'
import type { Question } from './question.ts'

export interface PipelineParts extends RecorderParts {
  readonly engine: Engine
  readonly debugSessions: DebugSessions | undefined
  /** What gateways may say beside the question; undefined in `reverse_proxy`, where clients would. */
  readonly gateway: GatewayParts | undefined
  /** Undefined where nobody keeps a record of requests. */
  readonly noteDecided?: NoteDecided | undefined
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
  /** Filled anew for each question: the engine reads it before it returns. */
  readonly #options: DecisionOptions = { withDescriptors: false, given: undefined, isSettledLater: false, body: undefined, nowMs: 0 }

  constructor(parts: PipelineParts) {
    this.#parts = parts
    this.#recorder = new DecisionRecorder(parts)
  }

  /** Decides in one step. Returns at once where the engine does; until then the question must stay as it is. */
  decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    try {
      const answer = this.#decide(question)
      return answer instanceof Promise ? answer.catch((error: unknown) => this.fail(question.door, error)) : answer
    } catch (error) {
      return this.fail(question.door, error)
    }
  }

  /** Decides a call of the rate limit service in one step. */
  decideDescriptors(call: LimitCall): LimitAnswer | Promise<LimitAnswer> {
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

  /** For doors that decide in several steps, because a body may have to be read in between. `cookie` may name a debug session. */
  open(door: Door, view: RequestView, cookie: string | undefined): PendingDecision | RefusedAnswer {
    const { engine, clock, debugSessions, noteDecided } = this.#parts
    try {
      const isDebug = debugSessions?.isActive(cookie) ?? false
      const evaluation = engine.open(view, { withDescriptors: isDebug })
      if (evaluation === undefined) return this.refuse(door, 'no_bundle_loaded')
      return new PendingDecision({ recorder: this.#recorder, door, evaluation, clock, isDebug, view, noteDecided })
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

  #decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    const { engine, clock, debugSessions, gateway, noteDecided } = this.#parts
    const { plan } = engine
    const { door } = question
    if (plan === undefined) return this.refuse(door, 'no_bundle_loaded')
    const view = question.original()
    if (typeof view === 'string') return this.refuse(door, view)
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
    this.#options.body = hasHints && plan.needsBody ? hintedBody(view) : undefined
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

type DecisionOptions = { -readonly [Name in keyof Required<OpenOptions & DecideOptions>]: (OpenOptions & DecideOptions)[Name] }
