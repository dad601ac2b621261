import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/** Counts of this thread about Redis. */
export class RedisMetrics {
  /** Number of leases held at present. */
  readonly leases: Series
  readonly #served: Readonly<Record<'redis' | 'lease' | 'refusal' | 'failure_mode', Series>>
  readonly #errors: CounterFamily
  readonly #doubts: CounterFamily
  readonly #tokens: CounterFamily
  readonly #openCircuits: CounterFamily
  readonly #changes: CounterFamily
  readonly #roundTrips: HistogramSeries

  constructor(memory: MetricMemory) {
    this.leases = new CounterFamily(memory, 'edge_redis_leases').series()
    const served = new CounterFamily(memory, 'edge_redis_answers_total')
    this.#served = {
      redis: served.series('redis'),
      lease: served.series('lease'),
      refusal: served.series('refusal'),
      failure_mode: served.series('failure_mode'),
    }
    this.#errors = withSeries(new CounterFamily(memory, 'edge_redis_errors_total'), 'timeout', 'connection', 'reply')
    this.#doubts = withSeries(new CounterFamily(memory, 'edge_redis_doubts_total'), 'take', 'give_back', 'settlement', 'renewal', 'lease')
    this.#tokens = withSeries(new CounterFamily(memory, 'edge_redis_leased_tokens_total'), 'leased', 'given_back', 'lost')
    this.#changes = withSeries(new CounterFamily(memory, 'edge_redis_circuit_changes_total'), 'open', 'closed')
    this.#openCircuits = new CounterFamily(memory, 'edge_redis_circuit_open')
    this.#roundTrips = new Histogram(memory, 'edge_redis_round_trip_seconds').series()
  }

  countAnswer(by: 'redis' | 'lease' | 'refusal' | 'failure_mode'): void {
    // Nearly all answers of leases: with a constant name, V8 need not look the series up.
    if (by === 'lease') this.#served.lease.count++
    else this.#served[by].count++
  }

  countRoundTrip(seconds: number): void {
    this.#roundTrips.observe(seconds)
  }

  countError(kind: 'timeout' | 'connection' | 'reply'): void {
    this.#errors.series(kind).count++
  }

  countDoubt(what: 'take' | 'give_back' | 'settlement' | 'renewal' | 'lease'): void {
    this.#doubts.series(what).count++
  }

  countTokens(what: 'leased' | 'given_back' | 'lost', tokens: number): void {
    this.#tokens.series(what).count += tokens
  }

  /** Reports the node's circuit from now on, because an alert on a missing series never fires. */
  addNode(node: string): void {
    this.#openCircuits.series(node)
  }

  noteCircuit(node: string, isOpen: boolean): void {
    this.#openCircuits.series(node).count = isOpen ? 1 : 0
    this.#changes.series(isOpen ? 'open' : 'closed').count++
  }

  /** Whether any thread has an open circuit. */
  hasOpenCircuits(): boolean {
    for (const { value } of this.#openCircuits.values()) if (value > 0) return true
    return false
  }
}

/** Creates series at 0 from the start, because an alert on an increase needs an earlier value. */
function withSeries(family: CounterFamily, ...values: readonly string[]): CounterFamily {
  for (const value of values) family.series(value)
  return family
}
