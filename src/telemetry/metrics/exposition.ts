import type { BundleInfo } from '../../policy/bundle-info.ts'
import type { StoreStats } from '../../store/counter-store.ts'
import { VERSION } from '../../version.ts'
import { CATALOGUE, METRIC_NAMES, type MetricName } from './catalogue.ts'
import { CounterFamily } from './counter-family.ts'
import { expositionText, type MetricText } from './exposition-text.ts'
import { Histogram } from './histogram.ts'
import { type MetricMemory, OVERFLOW_CELL } from './metric-memory.ts'
import { type MetricValue, single } from './metric-value.ts'
import { processMetrics } from './process-metrics.ts'

export interface MetricSources {
  readonly memory: MetricMemory
  readonly bundle: () => BundleInfo | undefined
  readonly storeStats: () => StoreStats
  /** Open connections by worker. */
  readonly connections: () => Iterable<readonly [worker: number, count: number]>
  readonly isProxy: boolean
  /** Whether counters are in Redis. */
  readonly isFleet: boolean
}

type Collect = () => Iterable<MetricValue>

const OF_PROXY = /^edge_(?:llm|backend|proxy)_/
const OF_FLEET = /^edge_redis_/

/** The metrics of all threads, gathered for each scrape. */
export class Exposition {
  static readonly contentType = 'text/plain; version=0.0.4'
  readonly #memory: MetricMemory
  readonly #collectors = new Map<MetricName, Collect>()

  constructor(sources: MetricSources) {
    this.#memory = sources.memory
    const computed = computedMetrics(sources)
    for (const name of METRIC_NAMES) {
      if ((!sources.isProxy && OF_PROXY.test(name)) || (!sources.isFleet && OF_FLEET.test(name))) continue
      this.#collectors.set(name, computed.get(name) ?? counted(sources.memory, name))
    }
  }

  /** Each step is short, however many series there are. Returns the text. */
  *steps(): Generator<void, Buffer> {
    yield* this.#memory.readSteps()
    const pieces: Buffer[] = []
    for (const piece of expositionText(this.#metrics())) {
      pieces.push(Buffer.from(piece))
      yield
    }
    return Buffer.concat(pieces)
  }

  *#metrics(): Generator<MetricText> {
    for (const [name, collect] of this.#collectors) yield { name, ...CATALOGUE[name], values: collect() }
  }
}

function counted(memory: MetricMemory, name: MetricName): Collect {
  const family = isHistogram(name) ? new Histogram(memory, name) : new CounterFamily(memory, name)
  return () => family.values()
}

function isHistogram(name: MetricName): name is Histogram['name'] {
  return CATALOGUE[name].type === 'histogram'
}

/** Metrics that are read from elsewhere rather than counted. */
function computedMetrics({ memory, bundle, storeStats, connections }: MetricSources): Map<MetricName, Collect> {
  return new Map<MetricName, Collect>([
    ['edge_bundle_info', () => of(bundle(), ({ version, hash }) => ({ labels: { version, hash }, value: 1 }))],
    ['edge_bundle_last_update_timestamp_seconds', () => of(bundle(), ({ updatedAtS }) => ({ labels: {}, value: updatedAtS }))],
    ['edge_store_slots', () => single(storeStats().slots)],
    ['edge_store_occupied_slots', () => single(storeStats().occupiedSlots)],
    ['edge_store_forced_evictions_total', () => single(storeStats().forcedEvictions)],
    ['edge_metrics_overflow_total', () => single(memory.sum(OVERFLOW_CELL))],
    [
      'edge_worker_connections',
      () => Array.from(connections(), ([worker, count]) => ({ labels: { worker: String(worker) }, value: count })),
    ],
    ['edge_build_info', () => [{ labels: { version: VERSION, node: process.version }, value: 1 }]],
    ...processMetrics(),
  ])
}

function of<Source>(source: Source | undefined, toValue: (source: Source) => MetricValue): MetricValue[] {
  return source === undefined ? [] : [toValue(source)]
}
