import type { Logger } from 'pino'
import type { Allowed, Rejected, RejectReason } from '../engine/decision.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { PlanRule } from '../policy/plan.ts'
import { Sampler } from '../telemetry/sampler.ts'

/**
 * One line per rule and second for rejects and would-rejects, one per reason and second for refusals; each says how
 * many more it stands for. Keys are named, values are not: they may be API keys.
 */
export class DecisionLog {
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
