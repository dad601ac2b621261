import { CounterFamily, type Series } from './counter-family.ts'
import type { MetricMemory } from './metric-memory.ts'

/** Metrics of requests in flight that concurrency rules count. */
export class HoldMetrics {
  readonly open: Series
  readonly #renewals: CounterFamily

  constructor(memory: MetricMemory) {
    this.open = new CounterFamily(memory, 'edge_proxy_open_holds').series()
    this.#renewals = new CounterFamily(memory, 'edge_hold_renewals_total')
  }

  countRenewal(result: 'renewed' | 'late' | 'failed'): void {
    this.#renewals.series(result).count++
  }
}
