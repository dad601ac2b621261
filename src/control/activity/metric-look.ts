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
import { CounterGrowth, HistogramGrowth } from '../../telemetry/metrics/metric-growth.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'

/** Length of each of three lists: the busiest policies, those that rejected most, and those that would have rejected most. */
const SHOWN_POLICIES = 6
const SHOWN_RULES = 6
/** Enough rows for a table of the busiest policies. */
const BUSIEST_POLICIES = 20

/** Counts of all threads since the previous look. */
export type MetricReading = Pick<
  ActivitySample,
  'allowed' | 'rejected' | 'would_reject' | 'refused' | 'reasons' | 'policies' | 'latency' | 'spending'
>

/**
 * Looks repeatedly at the metrics that all threads share. It keeps one number for each series and, during a look, one object for each policy that
 * decided anything. Its results have a fixed size, whatever the number of policies.
 */
export class MetricLook {
  /** The policies that decided most between the last two looks. */
  busiest: readonly string[] = []
  readonly #memory: MetricMemory
  readonly #growth = new Map<MetricName, CounterGrowth>()
  readonly #decisionTimes: HistogramGrowth
  readonly #backendTimes: HistogramGrowth
  readonly #roundTrips: HistogramGrowth

  constructor(memory: MetricMemory) {
    this.#memory = memory
    this.#decisionTimes = new HistogramGrowth(memory, 'edge_decision_duration_seconds')
    this.#backendTimes = new HistogramGrowth(memory, 'edge_backend_response_seconds')
    this.#roundTrips = new HistogramGrowth(memory, 'edge_redis_round_trip_seconds')
  }

  /** Works a part at a time, because there may be a hundred thousand series. */
  *steps(): Generator<void, MetricReading> {
    yield* this.#memory.readSteps()
    const policies = new ByPolicy()
    const byReason = new Map<string, number>()
    let allowed = 0
    let rejected = 0
    yield* this.#grown('edge_decisions_total', ([action, reason, policy, route], by) => {
      const isAllowed = action === 'allow'
      if (isAllowed) allowed += by
      else {
        rejected += by
        add(byReason, reason!, by)
      }
      // If no policy decided, both labels are 'none'. A policy may have that name, too.
      if (policy !== 'none' || route !== 'none') policies.of(policy!)[isAllowed ? 'allowed' : 'rejected'] += by
    })
    let wouldReject = 0
    yield* this.#grown('edge_would_reject_total', ([policy], by) => {
      wouldReject += by
      policies.of(policy!).would_reject += by
    })
    const refusals = yield* this.#countsByName('edge_refused_requests_total')
    this.#decisionTimes.look()
    this.busiest = busiest(policies.all(), BUSIEST_POLICIES, decisionsOf).map(({ policy }) => policy)
    return {
      allowed,
      rejected,
      would_reject: wouldReject,
      refused: Object.values(refusals).reduce((sum, count) => sum + count, 0),
      reasons: { rejected: Object.fromEntries(byReason), refused: refusals },
      policies: shownPolicies(policies.all()),
      latency: quantiles(this.#decisionTimes),
      spending: yield* this.#spending(),
    }
  }

  *backendSteps(): Generator<void, BackendSample> {
    this.#backendTimes.look()
    return {
      in_flight: this.#gauge('edge_proxy_open_requests'),
      streams: this.#gauge('edge_llm_open_streams'),
      tunnels: this.#gauge('edge_proxy_open_tunnels'),
      waiting: this.#gauge('edge_backend_queue_requests'),
      responses: yield* this.#countsByName('edge_backend_responses_total'),
      failures: yield* this.#countsByName('edge_backend_failures_total'),
      latency: quantiles(this.#backendTimes),
    }
  }

  *redisSteps(): Generator<void, RedisSample> {
    this.#roundTrips.look()
    return {
      round_trips: this.#roundTrips.count,
      latency: quantiles(this.#roundTrips),
      checks: yield* this.#countsByName('edge_redis_answers_total'),
      errors: yield* this.#countsByName('edge_redis_errors_total'),
      open_circuits: this.#gauge('edge_redis_circuit_open'),
    }
  }

  *#spending(): Generator<void, SpendingSample> {
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
    yield* this.#grown('edge_llm_tokens_used_total', (values, by) => {
      tokens += by
      of(values).tokens += by
    })
    yield* this.#grown('edge_cost_spent_total', (values, by) => {
      money += by
      of(values).money += by
    })
    const shown = new Set<RuleSpending>([
      ...busiest(rules.values(), SHOWN_RULES, (rule) => rule.tokens),
      ...busiest(rules.values(), SHOWN_RULES, (rule) => rule.money),
    ])
    return { tokens, money, rules: [...shown] }
  }

  #grown(name: MetricName, onGrowth: (values: readonly string[], by: number) => void): Generator<void> {
    let growth = this.#growth.get(name)
    if (growth === undefined) {
      growth = new CounterGrowth(this.#memory, name)
      this.#growth.set(name, growth)
    }
    return growth.steps(onGrowth)
  }

  /** Reads the growth of a counter that has one label with few values. */
  *#countsByName(name: MetricName): Generator<void, CountsByName> {
    const counts = new Map<string, number>()
    yield* this.#grown(name, ([value], by) => add(counts, value!, by))
    return Object.fromEntries(counts)
  }

  #gauge(name: MetricName): number {
    return this.#memory.entriesOf(name).reduce((sum, { cell }) => sum + this.#memory.sum(cell), 0)
  }
}

class ByPolicy {
  readonly #counts = new Map<string, { policy: string; allowed: number; rejected: number; would_reject: number }>()

  of(policy: string): { allowed: number; rejected: number; would_reject: number } {
    let counts = this.#counts.get(policy)
    if (counts === undefined) {
      counts = { policy, allowed: 0, rejected: 0, would_reject: 0 }
      this.#counts.set(policy, counts)
    }
    return counts
  }

  all(): Iterable<PolicySample> {
    return this.#counts.values()
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

/** A shadow policy may have decided nothing, so requests that it would have rejected count too. */
function decisionsOf({ allowed, rejected, would_reject }: PolicySample): number {
  return Math.max(allowed + rejected, would_reject)
}

function add(counts: Map<string, number>, name: string, by: number): void {
  counts.set(name, (counts.get(name) ?? 0) + by)
}

function quantiles(times: HistogramGrowth): Quantiles | null {
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
