import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { BudgetWarning } from '../engine/budget-warning.ts'
import type { CallerDigest } from '../engine/caller-digest.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { BudgetWarningMetrics } from '../telemetry/metrics/budget-warning-metrics.ts'
import { Sampler } from '../telemetry/sampler.ts'

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
