import type { PlanRule } from '../../policy/plan.ts'
import { CounterFamily } from './counter-family.ts'
import type { MetricMemory } from './metric-memory.ts'

export class BudgetWarningMetrics {
  readonly #warnings: CounterFamily

  constructor(memory: MetricMemory) {
    this.#warnings = new CounterFamily(memory, 'edge_budget_warnings_total')
  }

  count({ policy, name }: PlanRule, percent: number): void {
    this.#warnings.series(policy.id, name, String(percent)).count++
  }
}
