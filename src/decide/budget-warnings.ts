import type { Logger } from 'pino'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { BudgetWarning } from '../engine/watchers.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { BudgetWarningMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import { shownLabels } from '../usage-log/shown-labels.ts'

export interface BudgetWarningParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: BudgetWarningMetrics
  /** Identifies a caller without its values, which may be API keys. */
  readonly callerDigest: CallerDigest
}

/** Applies to each rule. It is generous because each line is about another caller, or another share of the same caller's budget. */
const LINES_PER_SECOND = 100

/**
 * Reports budgets that are nearly spent. All warnings are counted, and all are logged unless very many callers reach a share at once; the next line then
 * says how many were left out.
 */
export class BudgetWarnings {
  readonly #parts: BudgetWarningParts
  readonly #byRule = new Sampler<PlanRule>(new WeakMap(), LINES_PER_SECOND)

  constructor(parts: BudgetWarningParts) {
    this.#parts = parts
  }

  note({ rule, values, caller = this.#parts.callerDigest(values), percent, labels }: BudgetWarning): void {
    const { clock, logger, metrics, callerDigest } = this.#parts
    metrics.count(rule, percent)
    const unlogged = this.#byRule.admit(rule, clock.nowMs())
    if (unlogged === undefined) return
    const { policy, name } = rule
    const who = { caller, labels: shownLabels(labels, callerDigest) }
    const fields = { event: 'budget_warning', policy: policy.id, rule: name, mode: policy.mode, percent, ...who, unlogged }
    logger.warn(fields, `a caller has spent or reserved ${percent} % of its budget`)
  }
}
