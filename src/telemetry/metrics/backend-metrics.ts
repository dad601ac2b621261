import type { PlanRule } from '../../policy/plan.ts'
import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/** Metrics of the backend and of calls to it. */
export class BackendMetrics {
  readonly clientAborts: Series
  readonly openRequests: Series
  readonly openTunnels: Series
  /** Event streams and tunnels. */
  readonly openStreams: Series
  readonly connections: Series
  /** Requests waiting for a connection, and how long those that got one waited. */
  readonly queue: Series
  readonly queueSeconds: HistogramSeries
  readonly #failures: CounterFamily
  readonly #retries: CounterFamily
  readonly #streamCuts: CounterFamily
  /** Time from the request's first byte to the response's head. */
  readonly #latencies: HistogramSeries
  readonly #byClass: readonly Series[]

  constructor(memory: MetricMemory) {
    this.clientAborts = new CounterFamily(memory, 'edge_proxy_client_aborts_total').series()
    this.openRequests = new CounterFamily(memory, 'edge_proxy_open_requests').series()
    this.openTunnels = new CounterFamily(memory, 'edge_proxy_open_tunnels').series()
    this.openStreams = new CounterFamily(memory, 'edge_proxy_open_streams').series()
    this.connections = new CounterFamily(memory, 'edge_backend_connections').series()
    this.queue = new CounterFamily(memory, 'edge_backend_queue_requests').series()
    this.queueSeconds = new Histogram(memory, 'edge_backend_queue_seconds').series()
    this.#failures = new CounterFamily(memory, 'edge_backend_failures_total')
    this.#retries = new CounterFamily(memory, 'edge_backend_retries_total')
    this.#streamCuts = new CounterFamily(memory, 'edge_proxy_streams_cut_total')
    this.#latencies = new Histogram(memory, 'edge_backend_response_seconds').series()
    const responses = new CounterFamily(memory, 'edge_backend_responses_total')
    this.#byClass = ['1xx', '2xx', '3xx', '4xx', '5xx'].map((name) => responses.series(name))
  }

  countResponse(status: number, latencyMs: number): void {
    this.#byClass[Math.min(Math.floor(status / 100), 5) - 1]!.count++
    this.#latencies.observe(latencyMs / 1000)
  }

  countFailure(reason: string): void {
    this.#failures.series(reason).count++
  }

  /** Counts a stream under way that a block has ended. */
  countStreamCut({ policy, name }: PlanRule): void {
    this.#streamCuts.series(policy.id, name).count++
  }

  countRetry(reason: string): void {
    this.#retries.series(reason).count++
  }
}
