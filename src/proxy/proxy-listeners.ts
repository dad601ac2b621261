import type { Socket } from 'node:net'
import type { ServerConfig } from '../config/config.ts'
import type { ConnectionSlots } from '../listen/connection-slots.ts'
import type { HttpListener, ListenerOptions, PortOptions } from '../listen/http-listener.ts'
import type { Plan } from '../policy/plan.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { SecretValues } from '../secrets/header-template.ts'
import { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import { CostMetrics, HoldMetrics, InFlightMetrics, LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { RouteMetrics } from '../telemetry/metrics/route-metrics.ts'
import { WaitMetrics } from '../telemetry/metrics/wait-metrics.ts'
import { Backend, type SilentRequests } from './backend/backend.ts'
import type { BackendHealth } from './backends/backend-health.ts'
import type { BackendSlots } from './backends/backend-slots.ts'
import { CoolingReports } from './backends/cooling-reports.ts'
import { RoutedBackends, summedListener } from './backends/routed-backends.ts'
import { BodyClaims } from './body/body-claims.ts'
import type { BodyMemory } from './body/body-memory.ts'
import { type Downstream, localPeerOf, remotePeerOf } from './downstream.ts'
import { OpenHolds } from './llm/open-holds.ts'
import { NodeServer } from './node-http/node-server.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import { type ProxyParts, ReverseProxy } from './reverse-proxy.ts'
import { newProxyWire, type ProxyWire } from './wire/wire-client.ts'

export type ProxyOptions = Pick<
  ServerConfig,
  | 'trustedProxies'
  | 'backendUrl'
  | 'backendHost'
  | 'backendConnectTimeoutMs'
  | 'backendHeadersTimeoutMs'
  | 'backendIdleTimeoutMs'
  | 'backendQueueMs'
  | 'silentMs'
  | 'maxBodyBytes'
  | 'maxWaiting'
  | 'isProxyOnNodeHttp'
>

type SharedParts = Pick<ProxyParts, 'pipeline' | 'engine' | 'clock' | 'logger' | 'tracing' | 'noteUsage'> & {
  readonly bodyMemory: BodyMemory
  readonly metricMemory: MetricMemory
  readonly backendSlots: BackendSlots
  readonly backendHealth: BackendHealth
  readonly secrets: SecretValues
}

/** The listeners of reverse_proxy mode, and everything behind them. */
export class ProxyListeners {
  readonly #proxy: ReverseProxy
  readonly #backend: Backend | undefined
  readonly #routed: RoutedBackends
  readonly #stallMs: number
  readonly #silentMs: number
  readonly #trustedProxies: TrustedProxies
  readonly #hasOwnWire: boolean
  readonly #servers: NodeServer[] = []
  #openListeners = 0

  constructor(options: ProxyOptions, slots: ConnectionSlots, parts: SharedParts) {
    const { metricMemory: memory, clock, logger, secrets } = parts
    const backendMetrics = new BackendMetrics(memory)
    const routeMetrics = new RouteMetrics(memory)
    const timeouts = {
      connectTimeoutMs: options.backendConnectTimeoutMs,
      headersTimeoutMs: options.backendHeadersTimeoutMs,
      idleTimeoutMs: options.backendIdleTimeoutMs,
      queueMs: options.backendQueueMs,
    }
    const { backendUrl: url } = options
    this.#stallMs = timeouts.idleTimeoutMs
    this.#silentMs = options.silentMs
    this.#backend = url && new Backend({ ...timeouts, url }, slots, summedListener(backendMetrics))
    this.#routed = new RoutedBackends({
      slots: parts.backendSlots,
      health: parts.backendHealth,
      clock,
      secrets,
      metrics: backendMetrics,
      routeMetrics,
      reports: new CoolingReports(routeMetrics, logger, clock),
      timeouts,
      lastResort: this.#backend,
      maxConnections: slots.total,
    })
    this.#trustedProxies = options.trustedProxies
    this.#hasOwnWire = !options.isProxyOnNodeHttp
    this.#proxy = new ReverseProxy({
      ...parts,
      backend: this.#backend,
      routed: this.#routed,
      idleTimeoutMs: timeouts.idleTimeoutMs,
      holds: new OpenHolds({ ...parts, metrics: new HoldMetrics(memory) }),
      llmMetrics: new LlmMetrics(memory),
      costMetrics: new CostMetrics(memory),
      inFlightMetrics: new InFlightMetrics(memory),
      backendMetrics,
      backendHost: options.backendHost,
      maxBodyBytes: options.maxBodyBytes,
      trustedProxies: options.trustedProxies,
      maxWaiting: options.maxWaiting,
      waitMetrics: new WaitMetrics(memory),
      bodyClaims: new BodyClaims({
        memory: parts.bodyMemory,
        nowMs: () => parts.clock.nowMs(),
        heldBytes: new CounterFamily(memory, 'edge_proxy_body_memory_bytes').series(),
        waitingUploads: new CounterFamily(memory, 'edge_proxy_waiting_uploads').series(),
      }),
    })
  }

  /** Paths for which `isOwn` is true are served here, all others by the backend. */
  newListener(options: PortOptions, isOwn: (path: string) => boolean, handleOwn: ListenerOptions['handle']): HttpListener {
    const handlers = {
      peerOf: options.peers === 'local' ? localPeerOf(this.#trustedProxies) : remotePeerOf(this.#trustedProxies),
      isOwn,
      handle: (request: ProxiedRequest, downstream: Downstream) => this.#proxy.handle(request, downstream),
      noteMalformed: (detail: string) => this.#proxy.noteMalformed(detail),
    }
    const stallMs = this.#stallMs
    const newWire = (handOver: (socket: Socket) => void): ProxyWire => newProxyWire(options.timeouts, stallMs, { ...handlers, handOver })
    const server = new NodeServer({
      ...handlers,
      handleOwn,
      stallMs,
      refuse: (downstream, detail) => this.#proxy.refuse(downstream, 'bad_request', detail),
      newWire: this.#hasOwnWire ? newWire : undefined,
    })
    this.#servers.push(server)
    this.#openListeners++
    return server.newListener(options)
  }

  /** To be called when this plan becomes active: its backends get their connections, and its blocks end streams. */
  turnTo(plan: Plan | undefined): void {
    this.#routed.turnTo(plan?.routing)
    void this.cutBlockedStreams()
  }

  /** Ends the streams that blocks in force cover. Resolves when all have been looked at. */
  cutBlockedStreams(): Promise<void> {
    return this.#proxy.cutBlockedStreams()
  }

  cutBlockedStreamsAt(atMs: number): void {
    this.#proxy.cutBlockedStreamsAt(atMs)
  }

  /** The backends to which requests have been silent for EDGE_SILENT_SECONDS. */
  silentRequests(): (SilentRequests & { readonly name: string })[] {
    const lastResort = this.#backend === undefined ? [] : [{ name: 'EDGE_BACKEND_URL', backend: this.#backend }]
    return [...lastResort, ...this.#routed.open]
      .map(({ name, backend }) => ({ name, ...backend.silentFor(this.#silentMs) }))
      .filter(({ count }) => count > 0)
  }

  endCallers(ids: ReadonlySet<string>): Promise<number> {
    return this.#proxy.endCallers(ids)
  }

  /** Makes every response that begins from now on the last on its connection, and ends the waits for rules. */
  drain(): void {
    for (const server of this.#servers) server.drain()
    this.#proxy.endWaits()
  }

  /** Closes the WebSockets that are still open. */
  cutTunnels(): void {
    for (const server of this.#servers) server.cutTunnels()
  }

  /** To be called for each listener when no request is open on it any more. The last one closes the connections to the backend. */
  close(): void {
    if (--this.#openListeners > 0) return
    this.#backend?.close()
    this.#routed.close()
  }
}
