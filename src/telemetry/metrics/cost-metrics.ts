import type { PlanRule } from '../../policy/plan.ts'
import { CounterFamily } from './counter-family.ts'
import type { MetricMemory } from './metric-memory.ts'

/** Metrics of budgets of money, in units of the currency. */
export class CostMetrics {
  readonly #reserved: CounterFamily
  readonly #spent: CounterFamily

  constructor(memory: MetricMemory) {
    this.#reserved = new CounterFamily(memory, 'edge_cost_reserved_total')
    this.#spent = new CounterFamily(memory, 'edge_cost_spent_total')
  }

  /** Amounts are as the rule's counter has them. */
  countReserved(rule: PlanRule, amount: number): void {
    this.#reserved.series(rule.policy.id, rule.name).count += unitsOf(rule, amount)
  }

  countUsed(rule: PlanRule, _reserved: number, amount: number): void {
    this.#spent.series(rule.policy.id, rule.name).count += unitsOf(rule, amount)
  }
}

/** The RateLimit fields show hundredths. */
function unitsOf({ counters }: PlanRule, amount: number): number {
  return amount / (counters[0]!.unit * 100)
}
