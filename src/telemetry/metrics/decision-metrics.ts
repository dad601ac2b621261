import type { Allowed, Decision, Rejected, WouldReject } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { CounterFamily, type Series } from './counter-family.ts'
import { Histogram, type HistogramSeries } from './histogram.ts'
import type { MetricMemory } from './metric-memory.ts'

/** What is counted on every decision. */
export class DecisionMetrics {
  readonly #decisions: CounterFamily
  readonly #missingDescriptors: CounterFamily
  readonly #wouldRejects: CounterFamily
  readonly #refused: CounterFamily
  readonly #durations: HistogramSeries
  /** The usual outcome of a policy, found without building its label key. */
  readonly #passes = new WeakMap<PlanPolicy, Series>()
  readonly #rejects = new WeakMap<PlanRule, Series>()
  readonly #passWithoutPolicy: Series

  constructor(memory: MetricMemory) {
    this.#decisions = new CounterFamily(memory, 'edge_decisions_total')
    this.#missingDescriptors = new CounterFamily(memory, 'edge_descriptor_missing_total')
    this.#wouldRejects = new CounterFamily(memory, 'edge_would_reject_total')
    this.#refused = new CounterFamily(memory, 'edge_refused_requests_total')
    this.#durations = new Histogram(memory, 'edge_decision_duration_seconds').series()
    this.#passWithoutPolicy = this.#decisions.series('allow', 'all_rules_passed', 'none', 'none')
  }

  count(decision: Allowed | Rejected, durationMs: number): void {
    this.#seriesOf(decision).count++
    this.#durations.observe(durationMs / 1000)
    for (const key of decision.missingKeys) this.#missingDescriptors.series(key).count++
    for (const { rule, reason } of decision.wouldRejects) this.#wouldReject(rule, reason).count++
  }

  countRefused(reason: Reason): void {
    this.#refused.series(reason).count++
  }

  #seriesOf(decision: Exclude<Decision, { action: 'refuse' }>): Series {
    const { action, reason, policy, rule } = decision
    if (policy === undefined || rule === undefined) return this.#passWithoutPolicy
    if (reason === 'all_rules_passed') return this.#kept(this.#passes, policy, () => this.#series(action, reason, policy))
    // An LLM rule has two reasons to reject, and an override may block any rule; all others have one series.
    if (action === 'reject' && rule.counters.length <= 1 && reason === (rule.counters[0]?.reason ?? 'blocked'))
      return this.#kept(this.#rejects, rule, () => this.#series(action, reason, policy))
    return this.#series(action, reason, policy)
  }

  #series(action: string, reason: string, policy: PlanPolicy): Series {
    return this.#decisions.series(action, reason, policy.id, policy.route)
  }

  #wouldReject(rule: PlanRule, reason: WouldReject['reason']): Series {
    return this.#wouldRejects.series(rule.policy.id, rule.name, reason)
  }

  #kept<Key extends object>(kept: WeakMap<Key, Series>, key: Key, make: () => Series): Series {
    let series = kept.get(key)
    if (series === undefined) {
      series = make()
      kept.set(key, series)
    }
    return series
  }
}
