import type { PlanRule } from '../../policy/plan.ts'
import { CATALOGUE } from './catalogue.ts'
import { CounterFamily } from './counter-family.ts'
import { Histogram } from './histogram.ts'

/** Ratios of our estimate to the provider's count: 1 is exact. */
const RATIO_BOUNDS = [0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4]

/** What token budgets did. */
export class LlmMetrics {
  readonly reserved = new CounterFamily(CATALOGUE.edge_llm_tokens_reserved_total.labels)
  readonly used = new CounterFamily(CATALOGUE.edge_llm_tokens_used_total.labels)
  readonly givenBack = new CounterFamily(CATALOGUE.edge_llm_tokens_given_back_total.labels)
  readonly overdrawn = new CounterFamily(CATALOGUE.edge_llm_tokens_overdrawn_total.labels)
  readonly settlements = new CounterFamily(CATALOGUE.edge_llm_settlements_total.labels)
  readonly truncations = new CounterFamily(CATALOGUE.edge_llm_truncations_total.labels)
  readonly wouldTruncate = new CounterFamily(CATALOGUE.edge_llm_would_truncate_total.labels)
  readonly promptEstimates = new Histogram(RATIO_BOUNDS)
  readonly completionEstimates = new Histogram(RATIO_BOUNDS)
  openStreams = 0

  countReserved(rule: PlanRule, tokens: number): void {
    series(this.reserved, rule).count += tokens
  }

  countUsed(rule: PlanRule, reserved: number, used: number): void {
    series(this.used, rule).count += used
    if (used < reserved) series(this.givenBack, rule).count += reserved - used
    if (used > reserved) series(this.overdrawn, rule).count += used - reserved
  }

  countSettlement(end: string): void {
    this.settlements.series(end).count++
  }

  countTruncation(rule: PlanRule): void {
    series(this.truncations, rule).count++
  }

  countWouldTruncate(rule: PlanRule): void {
    series(this.wouldTruncate, rule).count++
  }

  /** How near an estimate came to what the provider counted. Nothing can be near zero. */
  compareEstimate(kind: 'prompt' | 'completion', estimate: number, counted: number): void {
    const histogram = kind === 'prompt' ? this.promptEstimates : this.completionEstimates
    if (counted > 0) histogram.observe(estimate / counted)
  }
}

function series(family: CounterFamily, rule: PlanRule) {
  return family.series(rule.policy.id, rule.name)
}
