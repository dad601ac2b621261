import type { Logger } from 'pino'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Allowed, Decision, Rejected, RejectReason } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { BudgetWarning } from '../engine/watchers.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { BudgetWarningMetrics, DecisionMetrics, QuestionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import { type DecisionAnswer, decidedAnswer, type RefusedAnswer, refusedAnswer } from './decision-answer.ts'
import type { Door } from './question.ts'

export interface RecorderParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: DecisionMetrics
  readonly questions: QuestionMetrics
}

/** Turns what came of a question into its answer, which is counted and perhaps logged. */
export class DecisionRecorder {
  readonly #parts: RecorderParts
  readonly #log: DecisionLog

  constructor(parts: RecorderParts) {
    this.#parts = parts
    this.#log = new DecisionLog(parts.logger)
  }

  conclude(door: Door, decision: Decision, startMs: number, isDebug: boolean): DecisionAnswer {
    if (decision.action === 'refuse') return this.refuse(door, decision.reason)
    const { clock, metrics, questions } = this.#parts
    const nowMs = clock.nowMs()
    const latencyMs = nowMs - startMs
    metrics.count(decision, latencyMs)
    questions.count(door, decision.action)
    this.#log.note(decision, nowMs)
    return decidedAnswer(decision, isDebug, latencyMs)
  }

  /** A request that cannot be decided. `detail` is for the log. */
  refuse(door: Door, reason: Reason, detail?: string): RefusedAnswer {
    this.#parts.questions.count(door, 'refuse')
    return this.#refuse(reason, detail)
  }

  /** Our own code failed. The client learns that it did, the log learns why. */
  fail(door: Door, error: unknown): RefusedAnswer {
    this.logFailure(error)
    return this.refuse(door, 'internal_error')
  }

  /** The same where the question was decided, and is counted already. */
  failDecided(error: unknown): RefusedAnswer {
    this.logFailure(error)
    return this.#refuse('internal_error')
  }

  /** The same where the client already has its response, or a part of it. */
  logFailure(error: unknown): void {
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a request could not be answered')
  }

  #refuse(reason: Reason, detail?: string): RefusedAnswer {
    this.#parts.metrics.countRefused(reason)
    this.#log.noteRefused(reason, this.#parts.clock.nowMs(), detail)
    return refusedAnswer(reason)
  }
}

/**
 * One line per rule and second for rejects and would-rejects, one per reason and second for refusals; each says how
 * many more it stands for. Keys are named, values are not: they may be API keys.
 */
class DecisionLog {
  readonly #logger: Logger
  readonly #byRule = new Sampler<PlanRule>(new WeakMap())
  readonly #byReason = new Sampler<Reason>(new Map())

  constructor(logger: Logger) {
    this.#logger = logger
  }

  note(decision: Allowed | Rejected, nowMs: number): void {
    if (decision.action === 'reject') this.#write('reject', decision.rule!, decision.reason, nowMs)
    for (const { rule, reason } of decision.wouldRejects) this.#write('would_reject', rule, reason, nowMs)
  }

  /** A request that could not be decided. */
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

export interface BudgetWarningParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: BudgetWarningMetrics
  /** Names a caller without its values: they may be API keys. */
  readonly callerDigest: CallerDigest
}

/** For each rule: each line names a caller, and none of them is named again in its window. */
const LINES_PER_SECOND = 100

/** Tells operators of budgets that are nearly spent. All are counted and logged. Only where very many callers reach a share at once, a line says how many more it stands for. */
export class BudgetWarnings {
  readonly #parts: BudgetWarningParts
  readonly #byRule = new Sampler<PlanRule>(new WeakMap(), LINES_PER_SECOND)

  constructor(parts: BudgetWarningParts) {
    this.#parts = parts
  }

  note({ rule, values, caller = this.#parts.callerDigest(values), percent }: BudgetWarning): void {
    const { clock, logger, metrics } = this.#parts
    metrics.count(rule, percent)
    const unlogged = this.#byRule.admit(rule, clock.nowMs())
    if (unlogged === undefined) return
    const { policy, name } = rule
    const fields = { event: 'budget_warning', policy: policy.id, rule: name, mode: policy.mode, percent, caller, unlogged }
    logger.warn(fields, `a caller has spent or reserved ${percent} % of its budget`)
  }
}
