import type {
  ActivitySample,
  BackendSample,
  CountsByName,
  PolicySample,
  Quantiles,
  RedisSample,
  RuleSpending,
  SpendingSample,
  WorkerActivity,
} from '../../admin/api/instance-types.ts'
import type { ConnectionShares } from '../../listen/connection-slots.ts'
import { CATALOGUE, type MetricName } from '../../telemetry/metrics/catalogue.ts'
import { CounterGrowth, HistogramGrowth, type Observations } from '../../telemetry/metrics/metric-growth.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'

/** Length of each of three lists: the busiest policies, those that rejected most, and those that would have rejected most. */
const SHOWN_POLICIES = 6
const SHOWN_RULES = 6
/** Enough rows for a table of the busiest policies. */
const BUSIEST_POLICIES = 20

/** Counts of all threads since the previous look, or since a longer span was last taken. */
export type MetricReading = Pick<
  ActivitySample,
  'allowed' | 'rejected' | 'would_reject' | 'refused' | 'reasons' | 'policies' | 'latency' | 'spending'
>

/**
 * Looks repeatedly at the metrics that all threads share, and adds up what it sees over longer spans. It keeps one number for each series and each
 * span and, during a look, one object for each policy that decided anything. Its results have a fixed size, whatever the number of policies.
 *
 * Each method either looks, if `span` is undefined, or takes what the looks since the last time have added up to in this span. Counts are sums, so that
 * a policy that was never among the busiest of a look may be among those of a span, quantiles are those of all observations, and a gauge is the highest
 * value that a look has seen.
 */
export class MetricLook {
  /** The policies that decided most between the last two looks. */
  busiest: readonly string[] = []
  readonly #memory: MetricMemory
  readonly #spans: number
  readonly #growth = new Map<MetricName, CounterGrowth>()
  readonly #decisionTimes: HistogramGrowth
  readonly #backendTimes: HistogramGrowth
  readonly #roundTrips: HistogramGrowth
  readonly #peaks: GaugePeaks

  constructor(memory: MetricMemory, spans: number) {
    this.#memory = memory
    this.#spans = spans
    this.#decisionTimes = new HistogramGrowth(memory, 'edge_decision_duration_seconds', spans)
    this.#backendTimes = new HistogramGrowth(memory, 'edge_backend_response_seconds', spans)
    this.#roundTrips = new HistogramGrowth(memory, 'edge_redis_round_trip_seconds', spans)
    this.#peaks = new GaugePeaks(spans)
  }

  /** Works a part at a time, because there may be a hundred thousand series. */
  *steps(span?: number): Generator<void, MetricReading> {
    if (span === undefined) yield* this.#memory.readSteps()
    const policies = new ByPolicy()
    const byReason = new Map<string, number>()
    let allowed = 0
    let rejected = 0
    yield* this.#grown('edge_policy_requests_total', span, ([policy], by) => {
      policies.of(policy!).allowed += by
    })
    yield* this.#grown('edge_decisions_total', span, ([action, reason, policy], by) => {
      if (action === 'allow') {
        allowed += by
        return
      }
      rejected += by
      add(byReason, reason!, by)
      policies.of(policy!).reject(by)
    })
    let wouldReject = 0
    yield* this.#grown('edge_would_reject_total', span, ([policy], by) => {
      wouldReject += by
      policies.of(policy!).would_reject += by
    })
    const refusals = yield* this.#countsByName('edge_refused_requests_total', span)
    if (span === undefined) this.busiest = busiest(policies.all(), BUSIEST_POLICIES, decisionsOf).map(({ policy }) => policy)
    return {
      allowed,
      rejected,
      would_reject: wouldReject,
      refused: Object.values(refusals).reduce((sum, count) => sum + count, 0),
      reasons: { rejected: Object.fromEntries(byReason), refused: refusals },
      policies: shownPolicies(policies.all()),
      latency: quantiles(observed(this.#decisionTimes, span)),
      spending: yield* this.#spending(span),
    }
  }

  *backendSteps(span?: number): Generator<void, BackendSample> {
    return {
      in_flight: this.#gauge('edge_proxy_open_requests', span),
      streams: this.#gauge('edge_llm_open_streams', span),
      tunnels: this.#gauge('edge_proxy_open_tunnels', span),
      waiting: this.#gauge('edge_backend_queue_requests', span),
      responses: yield* this.#countsByName('edge_backend_responses_total', span),
      failures: yield* this.#countsByName('edge_backend_failures_total', span),
      latency: quantiles(observed(this.#backendTimes, span)),
    }
  }

  *redisSteps(span?: number): Generator<void, RedisSample> {
    const roundTrips = observed(this.#roundTrips, span)
    return {
      round_trips: roundTrips.count,
      latency: quantiles(roundTrips),
      checks: yield* this.#countsByName('edge_redis_answers_total', span),
      errors: yield* this.#countsByName('edge_redis_errors_total', span),
      open_circuits: this.#gauge('edge_redis_circuit_open', span),
    }
  }

  *#spending(span: number | undefined): Generator<void, SpendingSample> {
    const rules = new Map<string, { policy: string; rule: string; tokens: number; money: number }>()
    const of = ([policy, rule]: readonly string[]) => {
      const key = JSON.stringify([policy, rule])
      let found = rules.get(key)
      if (found === undefined) {
        found = { policy: policy!, rule: rule!, tokens: 0, money: 0 }
        rules.set(key, found)
      }
      return found
    }
    let tokens = 0
    let money = 0
    yield* this.#grown('edge_llm_tokens_used_total', span, (values, by) => {
      tokens += by
      of(values).tokens += by
    })
    yield* this.#grown('edge_cost_spent_total', span, (values, by) => {
      money += by
      of(values).money += by
    })
    const shown = new Set<RuleSpending>([
      ...busiest(rules.values(), SHOWN_RULES, (rule) => rule.tokens),
      ...busiest(rules.values(), SHOWN_RULES, (rule) => rule.money),
    ])
    return { tokens, money, rules: [...shown] }
  }

  #grown(name: MetricName, span: number | undefined, onGrowth: (values: readonly string[], by: number) => void): Generator<void> {
    let growth = this.#growth.get(name)
    if (growth === undefined) {
      growth = new CounterGrowth(this.#memory, name, this.#spans)
      this.#growth.set(name, growth)
    }
    return span === undefined ? growth.steps(onGrowth) : growth.takeSteps(span, onGrowth)
  }

  /** Reads the growth of a counter that has one label with few values. */
  *#countsByName(name: MetricName, span: number | undefined): Generator<void, CountsByName> {
    const counts = new Map<string, number>()
    yield* this.#grown(name, span, ([value], by) => add(counts, value!, by))
    return Object.fromEntries(counts)
  }

  #gauge(name: MetricName, span: number | undefined): number {
    if (span !== undefined) return this.#peaks.take(span, name)
    const value = this.#memory.entriesOf(name).reduce((sum, { cell }) => sum + this.#memory.sum(cell), 0)
    return this.#peaks.note(name, value)
  }
}

/** The highest value of each gauge since it was last taken, for each span. */
export class GaugePeaks {
  readonly #peaks: readonly Map<string, number>[]

  constructor(spans: number) {
    this.#peaks = Array.from({ length: spans }, () => new Map())
  }

  /** Returns the value. */
  note(name: string, value: number): number {
    for (const peaks of this.#peaks) peaks.set(name, Math.max(peaks.get(name) ?? value, value))
    return value
  }

  take(span: number, name: string): number {
    const peak = this.#peaks[span]!.get(name)
    this.#peaks[span]!.delete(name)
    return peak ?? 0
  }
}

function observed(times: HistogramGrowth, span: number | undefined): Observations {
  return span === undefined ? times.look() : times.take(span)
}

class ByPolicy {
  readonly #counts = new Map<string, PolicyCounts>()

  of(policy: string): PolicyCounts {
    let counts = this.#counts.get(policy)
    if (counts === undefined) {
      counts = new PolicyCounts(policy)
      this.#counts.set(policy, counts)
    }
    return counts
  }

  all(): Iterable<PolicySample> {
    return this.#counts.values()
  }
}

/** Of the requests that a policy covers, those that it did not reject count as allowed. */
class PolicyCounts implements PolicySample {
  readonly policy: string
  allowed = 0
  rejected = 0
  would_reject = 0

  constructor(policy: string) {
    this.policy = policy
  }

  /** Workers count on during a look, so it may see a reject and not yet that the policy covered the request. */
  reject(count: number): void {
    this.rejected += count
    this.allowed = Math.max(0, this.allowed - count)
  }
}

function shownPolicies(policies: Iterable<PolicySample>): PolicySample[] {
  const all = [...policies]
  const shown = new Set([
    ...busiest(all, SHOWN_POLICIES, decisionsOf),
    ...busiest(all, SHOWN_POLICIES, (policy) => policy.rejected),
    ...busiest(all, SHOWN_POLICIES, (policy) => policy.would_reject),
  ])
  return [...shown]
}

function decisionsOf({ allowed, rejected }: PolicySample): number {
  return allowed + rejected
}

function add(counts: Map<string, number>, name: string, by: number): void {
  counts.set(name, (counts.get(name) ?? 0) + by)
}

function quantiles(times: Observations): Quantiles | null {
  const p50 = times.quantile(0.5)
  const p99 = times.quantile(0.99)
  return p50 === null || p99 === null ? null : { p50_ms: milliseconds(p50), p99_ms: milliseconds(p99) }
}

/** Histograms do not justify more than four digits. */
function milliseconds(seconds: number): number {
  return Number((seconds * 1000).toPrecision(4))
}

const DECISION_TIMES = 'edge_decision_duration_seconds'

/** Figures of each worker, from its own lane of the metric memory. */
export class WorkerFigures {
  readonly #memory: MetricMemory
  readonly #shares: ConnectionShares
  /** Decisions by worker: the total at the last look, and the growth since the one before. */
  readonly #counted = new Map<number, { total: number; grown: number }>()

  constructor(memory: MetricMemory, shares: ConnectionShares) {
    this.#memory = memory
    this.#shares = shares
  }

  look(): void {
    for (const [worker] of this.#shares.all()) {
      const total = this.#decisions(worker)
      this.#counted.set(worker, { total, grown: total - (this.#counted.get(worker)?.total ?? 0) })
    }
  }

  now(): WorkerActivity[] {
    return Array.from(this.#shares.all(), ([worker, connections]) => ({
      worker,
      decisions: this.#counted.get(worker)?.grown ?? 0,
      busy_ratio: this.#gauge('edge_worker_busy_ratio', worker),
      heap_bytes: this.#gauge('edge_worker_heap_bytes', worker),
      connections,
    }))
  }

  /** Counts all decisions that the worker has ever timed. Its replacement goes on from there. */
  #decisions(worker: number): number {
    const cell = this.#memory.entriesOf(DECISION_TIMES)[0]?.cell
    if (cell === undefined) return 0
    let sum = 0
    for (let bucket = 0; bucket <= CATALOGUE[DECISION_TIMES].bounds.length; bucket++) sum += this.#memory.ofLane(worker, cell + bucket)
    return sum
  }

  #gauge(name: 'edge_worker_busy_ratio' | 'edge_worker_heap_bytes', worker: number): number {
    const entry = this.#memory.entriesOf(name).find(({ values }) => values[0] === String(worker))
    return entry === undefined ? 0 : this.#memory.sum(entry.cell)
  }
}

/** Returns the `count` items with the highest scores above 0, the highest first, in one pass over all items. */
export function busiest<Item>(items: Iterable<Item>, count: number, scoreOf: (item: Item) => number): Item[] {
  const found: { readonly item: Item; readonly score: number }[] = []
  for (const item of items) {
    const score = scoreOf(item)
    if (score <= 0 || (found.length === count && score <= found[count - 1]!.score)) continue
    let index = Math.min(found.length, count - 1)
    while (index > 0 && found[index - 1]!.score < score) index--
    found.splice(index, 0, { item, score })
    if (found.length > count) found.pop()
  }
  return found.map(({ item }) => item)
}
