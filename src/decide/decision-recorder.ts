import type { Logger } from 'pino'
import type { Allowed, Decision, Refused, Rejected, RejectReason } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { PlanRule } from '../policy/plan.ts'
import { isVerified } from '../request/caller.ts'
import type { DecisionMetrics, QuestionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import { type DecisionAnswer, decidedAnswer, type RefusedAnswer, refusedAnswer } from './decision-answer.ts'
import type { DecisionDebug } from './decision-debug.ts'
import type { Door } from './question.ts'

export interface RecorderParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: DecisionMetrics
  readonly questions: QuestionMetrics
  /** Undefined unless the log has every decision. */
  readonly debug?: DecisionDebug | undefined
}

/** Turns the outcome of a question into its answer, counts it, and logs a sample. */
export class DecisionRecorder {
  readonly #parts: RecorderParts
  readonly #log: SampledLog

  constructor(parts: RecorderParts) {
    this.#parts = parts
    this.#log = new SampledLog(parts.logger)
  }

  conclude(door: Door, decision: Decision, startMs: number, isDebug: boolean): DecisionAnswer {
    const { clock, metrics, questions } = this.#parts
    if (decision.caller !== undefined) metrics.countCaller(decision.caller)
    if (decision.action === 'refuse') return this.#refuseDecided(door, decision, isDebug)
    const nowMs = clock.nowMs()
    const latencyMs = nowMs - startMs
    metrics.count(decision, latencyMs)
    questions.count(door, decision.action)
    if (decision.wouldRefuse !== undefined) metrics.countWouldRefuse(decision.wouldRefuse)
    this.#log.note(decision, nowMs)
    return this.#noted(door, decidedAnswer(decision, isDebug, latencyMs))
  }

  /** Answers a request that cannot be decided. `detail` is for the log. */
  refuse(door: Door, reason: Reason, detail?: string): RefusedAnswer {
    this.#parts.questions.count(door, 'refuse')
    return this.#noted(door, this.#refuse(reason, detail, door === 'proxy'))
  }

  /** Answers after our own code failed. The client learns only that it failed; the log has the cause. */
  fail(door: Door, error: unknown): RefusedAnswer {
    this.logFailure(error)
    return this.refuse(door, 'internal_error')
  }

  /** Answers after a failure like `fail`, for a question that was decided and counted already. */
  failDecided(error: unknown): RefusedAnswer {
    this.logFailure(error)
    return this.#refuse('internal_error')
  }

  /** Logs a failure for which the client already has its response, or part of it. */
  logFailure(error: unknown): void {
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a request could not be answered')
  }

  #refuseDecided(door: Door, refused: Refused, isDebug: boolean): RefusedAnswer {
    this.#parts.questions.count(door, 'refuse')
    return this.#noted(door, this.#refuse(refused.reason, refused.caller?.problem, door === 'proxy', refused, isDebug))
  }

  #noted<Answer extends DecisionAnswer>(door: Door, answer: Answer): Answer {
    this.#parts.debug?.note(door, answer)
    return answer
  }

  #refuse(reason: Reason, detail?: string, isProxy = false, refused?: Refused, isDebug = false): RefusedAnswer {
    this.#parts.metrics.countRefused(reason)
    this.#log.noteRefused(reason, this.#parts.clock.nowMs(), detail)
    return refusedAnswer(reason, isProxy, refused, isDebug)
  }
}

/**
 * Writes at most one line per rule and second for rejects and would-rejects, and one per reason and second for refusals; each says how many were left out
 * before it. Lines name keys but never values, which may be API keys.
 */
class SampledLog {
  readonly #logger: Logger
  readonly #byRule = new Sampler<PlanRule>(new WeakMap())
  readonly #byReason = new Sampler<Reason>(new Map())
  readonly #byUnknown = new Sampler<Reason>(new Map())

  constructor(logger: Logger) {
    this.#logger = logger
  }

  note(decision: Allowed | Rejected, nowMs: number): void {
    if (decision.action === 'reject') this.#write('reject', decision.rule!, decision.reason, nowMs)
    for (const { rule, reason } of decision.wouldRejects) this.#write('would_reject', rule, reason, nowMs)
    if (decision.wouldRefuse !== undefined) this.#noteWouldRefuse(decision, decision.wouldRefuse, nowMs)
  }

  #noteWouldRefuse({ caller }: Allowed | Rejected, reason: Reason, nowMs: number): void {
    const unlogged = this.#byUnknown.admit(reason, nowMs)
    if (unlogged === undefined || caller === undefined || isVerified(caller)) return
    this.#logger.info(
      { event: 'would_refuse', status: REASONS[reason].status, reason, detail: caller.problem, unlogged },
      'request would be refused: its caller is not known',
    )
  }

  /** Logs a request that could not be decided. */
  noteRefused(reason: Reason, nowMs: number, detail?: string): void {
    const unlogged = this.#byReason.admit(reason, nowMs)
    if (unlogged === undefined) return
    this.#logger.warn({ event: 'refused', status: REASONS[reason].status, reason, detail, unlogged }, 'request could not be decided')
  }

  #write(event: 'reject' | 'would_reject', rule: PlanRule, reason: RejectReason, nowMs: number): void {
    const unlogged = this.#byRule.admit(rule, nowMs)
    if (unlogged === undefined) return
    const { policy, name, limitKeys } = rule
    this.#logger.info(
      { event, policy: policy.id, rule: name, reason, route: policy.route, limit_keys: limitKeys, unlogged },
      event === 'reject' ? 'request rejected' : 'request would be rejected',
    )
  }
}
