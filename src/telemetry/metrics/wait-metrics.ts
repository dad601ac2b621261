import type { PlanRule } from '../../policy/plan.ts'
import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/** How a wait ended; `full` if there was no place for the request, so that it did not wait. */
export type WaitOutcome = 'allowed' | 'rejected' | 'refused' | 'client_gone' | 'full'

/** Metrics of requests that wait for a rule with `wait_seconds`. */
export class WaitMetrics {
  /** How many wait now. */
  readonly waiting: Series
  /** How long those waited whose wait is over. */
  readonly seconds: HistogramSeries
  readonly #waits: CounterFamily

  constructor(memory: MetricMemory) {
    this.waiting = new CounterFamily(memory, 'edge_waiting_requests').series()
    this.seconds = new Histogram(memory, 'edge_wait_seconds').series()
    this.#waits = new CounterFamily(memory, 'edge_waits_total')
  }

  count({ policy, name }: PlanRule, outcome: WaitOutcome): void {
    this.#waits.series(policy.id, name, outcome).count++
  }
}
