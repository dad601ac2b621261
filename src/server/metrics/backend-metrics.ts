import { CATALOGUE } from './catalogue.ts'
import { CounterFamily } from './counter-family.ts'
import { Histogram } from './histogram.ts'

const SECONDS = [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** How the backend behaves. */
export class BackendMetrics {
  readonly responses = new CounterFamily(CATALOGUE.edge_backend_responses_total.labels)
  readonly failures = new CounterFamily(CATALOGUE.edge_backend_failures_total.labels)
  readonly retries = new CounterFamily(CATALOGUE.edge_backend_retries_total.labels)
  /** From the request's first byte to the answer's head. */
  readonly latencies = new Histogram(SECONDS)
  clientAborts = 0
  openRequests = 0
  openTunnels = 0
  readonly #byClass = ['1xx', '2xx', '3xx', '4xx', '5xx'].map((name) => this.responses.series(name))

  countResponse(status: number, latencyMs: number): void {
    this.#byClass[Math.min(Math.floor(status / 100), 5) - 1]!.count++
    this.latencies.observe(latencyMs / 1000)
  }

  countFailure(reason: string): void {
    this.failures.series(reason).count++
  }

  countRetry(reason: string): void {
    this.retries.series(reason).count++
  }
}
