import { readdirSync } from 'node:fs'
import { linuxDescriptorLimit } from '../../files/descriptor-limit.ts'
import { VERSION } from '../../files/package-files.ts'
import type { BundleInfo } from '../../policy/plan.ts'
import type { StoreStats } from '../../store/counter-store.ts'
import { CATALOGUE, METRIC_NAMES, type MetricName } from './catalogue.ts'
import { CounterFamily, Histogram, type MetricValue, single } from './metric-families.ts'
import { type MetricMemory, OVERFLOW_CELL } from './metric-memory.ts'

export interface MetricSources {
  readonly memory: MetricMemory
  readonly bundle: () => BundleInfo | undefined
  readonly storeStats: () => StoreStats
  /** Open connections by worker. */
  readonly connections: () => Iterable<readonly [worker: number, count: number]>
  /** The backends that the routes of the active bundle may name, and how they cool. */
  readonly backends: () => readonly BackendCooling[]
  readonly isProxy: boolean
  /** Whether counters are in Redis. */
  readonly isFleet: boolean
}

interface BackendCooling {
  readonly name: string
  readonly state: 'healthy' | 'cooling' | 'recovering'
  readonly models: readonly Pick<BackendCooling, 'state'>[]
}

type Collect = () => Iterable<MetricValue>

const OF_PROXY = /^edge_(?:llm|backend|route|proxy|usage)_/
const OF_FLEET = /^edge_redis_/

/** Collects the metrics of all threads for each scrape. */
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

  /** Returns the text. Each step is short, however many series there are. */
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

/** Metrics that are read from elsewhere instead of being counted. */
function computedMetrics({ memory, bundle, storeStats, connections, backends }: MetricSources): Map<MetricName, Collect> {
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
    ['edge_route_cooling', () => ofBackends(backends(), ({ state }) => (state === 'cooling' ? 1 : 0))],
    ['edge_route_cooling_models', () => ofBackends(backends(), ({ models }) => models.filter(({ state }) => state === 'cooling').length)],
    ['edge_build_info', () => [{ labels: { version: VERSION, node: process.version }, value: 1 }]],
    ...processMetrics(),
  ])
}

function of<Source>(source: Source | undefined, toValue: (source: Source) => MetricValue): MetricValue[] {
  return source === undefined ? [] : [toValue(source)]
}

function ofBackends(backends: readonly BackendCooling[], toValue: (backend: BackendCooling) => number): MetricValue[] {
  return backends.map((backend) => ({ labels: { backend: backend.name }, value: toValue(backend) }))
}

export interface MetricText {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: Iterable<MetricValue>
}

/** About 100 microseconds of work. */
const LINES_PER_PIECE = 50

/** Formats metrics in Prometheus's text format, version 0.0.4, one piece at a time. */
export function* expositionText(metrics: Iterable<MetricText>): Generator<string> {
  let separator = ''
  for (const { name, help, type, values } of metrics) {
    let piece = `${separator}# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    let lines = 0
    separator = '\n'
    for (const { metricName = name, labels, value } of values) {
      piece += `${metricName}${labelText(labels)} ${numberText(value)}\n`
      if (++lines % LINES_PER_PIECE > 0) continue
      yield piece
      piece = ''
    }
    yield piece
  }
}

function labelText(labels: MetricValue['labels']): string {
  let text = ''
  for (const name of Object.keys(labels)) text += `${text === '' ? '{' : ','}${name}="${escapeLabel(labels[name]!)}"`
  return text === '' ? '' : `${text}}`
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

const ESCAPED = /[\\\n"]/

function escapeLabel(text: string): string {
  return !ESCAPED.test(text) ? text : escapeHelp(text).replaceAll('"', '\\"')
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

/**
 * Metrics of the whole process, whichever thread serves the scrape. prom-client's own would count from the start of a thread, and go down when
 * another thread serves the next scrape.
 */
function* processMetrics(): Generator<[MetricName, () => MetricValue[]]> {
  yield ['process_cpu_user_seconds_total', () => single(process.cpuUsage().user / 1e6)]
  yield ['process_cpu_system_seconds_total', () => single(process.cpuUsage().system / 1e6)]
  yield ['process_cpu_seconds_total', () => single((process.cpuUsage().user + process.cpuUsage().system) / 1e6)]
  yield ['process_resident_memory_bytes', () => where(() => process.memoryUsage.rss())]
  yield ['process_open_fds', () => where(() => readdirSync('/proc/self/fd').length)]
  yield ['process_max_fds', () => where(linuxDescriptorLimit)]
}

/** Returns nothing if there is no /proc, or no descriptor left to read it. */
function where(read: () => number): MetricValue[] {
  try {
    const value = read()
    return Number.isFinite(value) ? single(value) : []
  } catch {
    return []
  }
}
