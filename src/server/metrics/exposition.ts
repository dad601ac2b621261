import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import type { BundleInfo } from '../../policy/bundle-info.ts'
import type { StoreStats } from '../../store/counter-store.ts'
import { VERSION } from '../../version.ts'
import type { BackendMetrics } from './backend-metrics.ts'
import { CATALOGUE, type MetricName } from './catalogue.ts'
import { CounterFamily } from './counter-family.ts'
import type { DecisionMetrics } from './decision-metrics.ts'
import type { HistogramValue } from './histogram.ts'
import type { LlmMetrics } from './llm-metrics.ts'

export interface MetricSources {
  readonly decisions: DecisionMetrics
  readonly bundle: () => BundleInfo | undefined
  readonly storeStats: () => StoreStats
  /** In reverse_proxy alone. */
  readonly proxy: ProxyMetricSources | undefined
}

export interface ProxyMetricSources {
  readonly llm: LlmMetrics
  readonly backend: BackendMetrics
  readonly backendConnections: () => number
}

type Value = { readonly labels: Readonly<Record<string, string>>; readonly value: number } | HistogramValue

/** Gathers what was counted, when somebody asks; prom-client writes it down. */
export class Exposition {
  static readonly contentType = 'text/plain; version=0.0.4'
  readonly reloads = new CounterFamily(CATALOGUE.edge_bundle_reloads_total.labels)
  readonly debugLogins = new CounterFamily(CATALOGUE.edge_debug_logins_total.labels)
  readonly #registry = new Registry()

  constructor(sources: MetricSources) {
    for (const result of ['applied', 'refused', 'unchanged', 'unreadable']) this.reloads.series(result)
    const { decisions, bundle, storeStats, proxy } = sources
    this.#add('edge_decisions_total', () => counts(decisions.decisions))
    this.#add('edge_descriptor_missing_total', () => counts(decisions.missingDescriptors))
    this.#add('edge_would_reject_total', () => counts(decisions.wouldRejects))
    this.#add('edge_refused_requests_total', () => counts(decisions.refused))
    this.#add('edge_decision_duration_seconds', () => decisions.durations.values('edge_decision_duration_seconds'))
    this.#add('edge_bundle_info', () => of(bundle(), ({ version, hash }) => ({ labels: { version, hash }, value: 1 })))
    this.#add('edge_bundle_last_update_timestamp_seconds', () => of(bundle(), ({ updatedAtS }) => ({ labels: {}, value: updatedAtS })))
    this.#add('edge_bundle_reloads_total', () => counts(this.reloads))
    this.#add('edge_store_slots', () => one(storeStats().slots))
    this.#add('edge_store_occupied_slots', () => one(storeStats().occupiedSlots))
    this.#add('edge_store_forced_evictions_total', () => one(storeStats().forcedEvictions))
    this.#add('edge_debug_logins_total', () => counts(this.debugLogins))
    if (proxy !== undefined) this.#addProxy(proxy)
    this.#add('edge_build_info', () => [{ labels: { version: VERSION, node: process.version }, value: 1 }])
    collectDefaultMetrics({ register: this.#registry })
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #addProxy({ llm, backend, backendConnections }: ProxyMetricSources): void {
    this.#add('edge_llm_tokens_reserved_total', () => counts(llm.reserved))
    this.#add('edge_llm_tokens_used_total', () => counts(llm.used))
    this.#add('edge_llm_tokens_given_back_total', () => counts(llm.givenBack))
    this.#add('edge_llm_tokens_overdrawn_total', () => counts(llm.overdrawn))
    this.#add('edge_llm_settlements_total', () => counts(llm.settlements))
    this.#add('edge_llm_truncations_total', () => counts(llm.truncations))
    this.#add('edge_llm_would_truncate_total', () => counts(llm.wouldTruncate))
    this.#add('edge_llm_estimate_ratio', () => [
      ...llm.promptEstimates.values('edge_llm_estimate_ratio', { kind: 'prompt' }),
      ...llm.completionEstimates.values('edge_llm_estimate_ratio', { kind: 'completion' }),
    ])
    this.#add('edge_llm_open_streams', () => one(llm.openStreams))
    this.#add('edge_backend_response_seconds', () => backend.latencies.values('edge_backend_response_seconds'))
    this.#add('edge_backend_responses_total', () => counts(backend.responses))
    this.#add('edge_backend_failures_total', () => counts(backend.failures))
    this.#add('edge_backend_retries_total', () => counts(backend.retries))
    this.#add('edge_backend_connections', () => one(backendConnections()))
    this.#add('edge_proxy_open_requests', () => one(backend.openRequests))
    this.#add('edge_proxy_open_tunnels', () => one(backend.openTunnels))
    this.#add('edge_proxy_client_aborts_total', () => one(backend.clientAborts))
  }

  #add(name: MetricName, collect: () => Iterable<Value>): void {
    const { type, help } = CATALOGUE[name]
    // prom-client asks a registered metric for nothing but its name and get().
    const metric = { name, get: async () => ({ name, help, type, values: [...collect()], aggregator: 'sum' }) }
    this.#registry.registerMetric(metric as unknown as Metric)
  }
}

function* counts(family: CounterFamily): Generator<Value> {
  for (const { labels, count } of family.all()) yield { labels, value: count }
}

function one(value: number): Value[] {
  return [{ labels: {}, value }]
}

function of<Source>(source: Source | undefined, toValue: (source: Source) => Value): Value[] {
  return source === undefined ? [] : [toValue(source)]
}
