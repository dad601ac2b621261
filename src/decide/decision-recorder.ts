import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { Decision } from '../engine/decision.ts'
import type { Reason } from '../engine/reasons.ts'
import type { DecisionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import type { QuestionMetrics } from '../telemetry/metrics/question-metrics.ts'
import { type DecisionAnswer, decidedAnswer, type RefusedAnswer, refusedAnswer } from './decision-answer.ts'
import { DecisionLog } from './decision-log.ts'
import type { Door } from './door.ts'

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
