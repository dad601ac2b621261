import type { Logger } from 'pino'
import type { Allowed, Rejected } from '../engine/decision.ts'
import type { LimitReason, PlanRule } from '../policy/plan.ts'

const INTERVAL_MS = 1000

/**
 * One line per rule and second for rejects and would-rejects; the next line says how many it stands for. Keys are
 * named, values are not: they may be API keys.
 */
export class DecisionLog {
  readonly #logger: Logger
  readonly #samples = new WeakMap<PlanRule, Sample>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  note(decision: Allowed | Rejected, nowMs: number): void {
    if (decision.action === 'reject') this.#write('reject', decision.limit.rule, decision.reason, nowMs)
    for (const { rule, reason } of decision.wouldRejects) this.#write('would_reject', rule, reason, nowMs)
  }

  #write(event: 'reject' | 'would_reject', rule: PlanRule, reason: LimitReason, nowMs: number): void {
    let sample = this.#samples.get(rule)
    if (sample === undefined) {
      sample = { nextAtMs: Number.NEGATIVE_INFINITY, unlogged: 0 }
      this.#samples.set(rule, sample)
    }
    if (nowMs < sample.nextAtMs) {
      sample.unlogged++
      return
    }
    const { policy, name, limitKeys } = rule
    this.#logger.info(
      { event, policy: policy.id, rule: name, reason, route: policy.route, limit_keys: limitKeys, unlogged: sample.unlogged },
      event === 'reject' ? 'request rejected' : 'request would be rejected',
    )
    sample.nextAtMs = nowMs + INTERVAL_MS
    sample.unlogged = 0
  }
}

interface Sample {
  nextAtMs: number
  /** Since the last line. */
  unlogged: number
}
