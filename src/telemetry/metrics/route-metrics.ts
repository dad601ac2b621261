import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/**
 * How a call to a backend of a route ended: with the status of an answer, or without one. `broken`: the connection broke before the whole head of the answer
 * had come. `busy`: no connection became free in time. `client_gone`: nobody waited for the answer any more.
 */
export type RouteOutcome = number | 'connect' | 'timeout' | 'broken' | 'busy' | 'client_gone'

const WORDS = ['connect', 'timeout', 'broken', 'busy', 'client_gone'] as const
const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx', '429'] as const
const LABELS = [...CLASSES, ...WORDS]

/** Metrics of the backends that routes name. */
export class RouteMetrics {
  readonly #attempts: CounterFamily
  readonly #retries: CounterFamily
  readonly #seconds: Histogram
  readonly #connections: CounterFamily
  readonly #queue: CounterFamily
  readonly #coolings: CounterFamily

  constructor(memory: MetricMemory) {
    this.#attempts = new CounterFamily(memory, 'edge_route_attempts_total')
    this.#retries = new CounterFamily(memory, 'edge_route_retries_total')
    this.#seconds = new Histogram(memory, 'edge_route_response_seconds')
    this.#connections = new CounterFamily(memory, 'edge_route_connections')
    this.#queue = new CounterFamily(memory, 'edge_route_queue')
    this.#coolings = new CounterFamily(memory, 'edge_route_coolings_total')
  }

  /** Returns the series of a backend, which whoever calls it keeps. */
  of(backend: string): RouteSeries {
    return {
      connections: this.#connections.series(backend),
      queue: this.#queue.series(backend),
      seconds: this.#seconds.series(backend),
      attempts: new OutcomeSeries(this.#attempts, backend),
      retries: new OutcomeSeries(this.#retries, backend),
    }
  }

  /** Counts that a backend, or a model of it, has begun to cool. */
  countCooling(backend: string, reason: string): void {
    this.#coolings.series(backend, reason).count++
  }
}

/** The series of one backend. */
export interface RouteSeries {
  readonly connections: Series
  /** Requests that wait for a connection. */
  readonly queue: Series
  /** Time until the head of an answer. */
  readonly seconds: HistogramSeries
  /** All calls, by how they ended. */
  readonly attempts: OutcomeSeries
  /** Calls after which the request went to another backend. */
  readonly retries: OutcomeSeries
}

/** Counts calls to one backend by outcome. A series exists once it has counted something; to count is an addition then. */
class OutcomeSeries {
  readonly #family: CounterFamily
  readonly #backend: string
  readonly #series: (Series | undefined)[] = LABELS.map(() => undefined)

  constructor(family: CounterFamily, backend: string) {
    this.#family = family
    this.#backend = backend
  }

  count(outcome: RouteOutcome): void {
    const index = labelIndex(outcome)
    let series = this.#series[index]
    if (series === undefined) {
      series = this.#family.series(this.#backend, LABELS[index]!)
      this.#series[index] = series
    }
    series.count++
  }
}

function labelIndex(outcome: RouteOutcome): number {
  if (typeof outcome === 'string') return CLASSES.length + WORDS.indexOf(outcome)
  if (outcome === 429) return CLASSES.indexOf('429')
  return Math.min(Math.floor(outcome / 100), 5) - 1
}
