import type { Allowed, Decision, Rejected, WouldReject } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { CATALOGUE } from './catalogue.ts'
import { CounterFamily, type Series } from './counter-family.ts'
import { Histogram } from './histogram.ts'

const BOUNDS_S = [2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1]

/** What is counted on every decision. */
export class DecisionMetrics {
  readonly decisions = new CounterFamily(CATALOGUE.edge_decisions_total.labels)
  readonly missingDescriptors = new CounterFamily(CATALOGUE.edge_descriptor_missing_total.labels)
  readonly wouldRejects = new CounterFamily(CATALOGUE.edge_would_reject_total.labels)
  readonly refused = new CounterFamily(CATALOGUE.edge_refused_requests_total.labels)
  readonly durations = new Histogram(BOUNDS_S)
  /** The usual outcome of a policy, found without building its label key. */
  readonly #passes = new WeakMap<PlanPolicy, Series>()
  readonly #rejects = new WeakMap<PlanRule, Series>()
  readonly #passWithoutPolicy = this.decisions.series('allow', 'all_rules_passed', 'none', 'none')

  count(decision: Allowed | Rejected, durationMs: number): void {
    this.#seriesOf(decision).count++
    this.durations.observe(durationMs / 1000)
    for (const key of decision.missingKeys) this.missingDescriptors.series(key).count++
    for (const { rule, reason } of decision.wouldRejects) this.#wouldReject(rule, reason).count++
  }

  countRefused(reason: Reason): void {
    this.refused.series(reason).count++
  }

  #seriesOf(decision: Exclude<Decision, { action: 'refuse' }>): Series {
    const { action, reason, policy, rule } = decision
    if (policy === undefined || rule === undefined) return this.#passWithoutPolicy
    if (reason === 'all_rules_passed') return this.#kept(this.#passes, policy, () => this.#series(action, reason, policy))
    // An LLM rule has two reasons to reject: only plain rules have one series.
    if (action === 'reject' && rule.counters.length === 1)
      return this.#kept(this.#rejects, rule, () => this.#series(action, reason, policy))
    return this.#series(action, reason, policy)
  }

  #series(action: string, reason: string, policy: PlanPolicy): Series {
    return this.decisions.series(action, reason, policy.id, policy.route)
  }

  #wouldReject(rule: PlanRule, reason: WouldReject['reason']): Series {
    return this.wouldRejects.series(rule.policy.id, rule.name, reason)
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
