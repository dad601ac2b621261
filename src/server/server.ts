import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { ServerConfig } from '../config.ts'
import type { Engine } from '../engine/engine.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import type { StoreStats } from '../store/counter-store.ts'
import { AcceptErrors } from './accept-errors.ts'
import type { ConnectionShares } from './connection-shares.ts'
import { DebugEndpoints } from './debug-endpoints.ts'
import { DebugSessions, type Logouts } from './debug-sessions.ts'
import { DecisionEndpoint } from './decision-endpoint.ts'
import { dispatch, type Endpoint } from './endpoints.ts'
import { handleLivez, handleReadyz } from './health-endpoints.ts'
import { HttpListener, type ListenerOptions, type ListenerTimeouts, type ListenOn, type PortOptions } from './http-listener.ts'
import { CounterFamily } from './metrics/counter-family.ts'
import { DecisionMetrics } from './metrics/decision-metrics.ts'
import { Exposition } from './metrics/exposition.ts'
import type { MetricMemory } from './metrics/metric-memory.ts'
import type { BodyMemory } from './proxy/body-memory.ts'
import { ProxyFront, type ProxyOptions } from './proxy/proxy-front.ts'
import { respondText } from './respond.ts'
import { DecisionWire } from './wire/decision-wire.ts'
import type { WrongSecrets } from './wrong-secrets.ts'

export type ServerOptions = ProxyOptions &
  ListenerTimeouts &
  Pick<ServerConfig, 'adminPort' | 'shutdownMs' | 'debugSessionSecret' | 'mode'> & {
    /** False: `node:http` answers everything. What the fast wire answers is held against that. */
    readonly hasFastWire?: boolean
  }

export interface ServerParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly bundle: () => BundleInfo | undefined
  readonly storeStats: () => StoreStats
  /** Whether a shared store can be asked; undefined where counters are this process's own. */
  readonly hasSharedStore?: (() => boolean) | undefined
  readonly metricMemory: MetricMemory
  readonly logouts: Logouts
  readonly wrongSecrets: WrongSecrets
  readonly shares: ConnectionShares
  readonly bodyMemory: BodyMemory
}

type Handle = (req: IncomingMessage, res: ServerResponse) => void

/** Ours in both modes, whether or not there is something behind them. */
const ADMIN_PATHS = new Set(['/livez', '/readyz', '/metrics', '/v1/debug/session', '/v1/debug/logout'])

/** Decisions that take longer than this at shutdown are cut. */
export const DECISION_GRACE_MS = 5000

/** The service's face to the network. */
export class EdgeServer {
  readonly #metrics: Exposition
  readonly #options: ServerOptions
  readonly #main: HttpListener
  readonly #admin: HttpListener | undefined
  readonly #proxy: ProxyFront | undefined
  #isListening = false
  #isShuttingDown = false

  constructor(options: ServerOptions, parts: ServerParts) {
    const { engine, clock, logger, metricMemory, shares, bodyMemory } = parts
    const { debugSessionSecret } = options
    const acceptErrors = new AcceptErrors(logger, () => clock.nowMs())
    const onPort = { timeouts: options, shares, onAcceptError: (error: Error) => acceptErrors.note(error) }
    this.#options = options
    const decisions = new DecisionMetrics(metricMemory)
    const debugSessions =
      debugSessionSecret === undefined ? undefined : new DebugSessions(debugSessionSecret, () => clock.wallMs(), parts.logouts)
    const isProxy = options.mode === 'reverse_proxy'
    this.#proxy = isProxy
      ? new ProxyFront(options, metricMemory, { engine, clock, logger, decisions, debugSessions, bodyMemory })
      : undefined
    const { bundle, storeStats, hasSharedStore } = parts
    const isFleet = hasSharedStore !== undefined
    this.#metrics = new Exposition({ memory: metricMemory, bundle, storeStats, connections: () => shares.all(), isProxy, isFleet })
    const decision = new DecisionEndpoint({ engine, clock, logger, metrics: decisions, debugSessions })
    const onError = decision.fail.bind(decision)
    const answer = (endpoints: Iterable<[string, Endpoint]>): Handle => {
      const byPath = new Map(endpoints)
      return (req, res) => dispatch(byPath, req, res, onError)
    }
    const admin = [...this.#healthEndpoints(parts), ...this.#debugEndpoints(parts, debugSessions)]
    const hasAdminPort = options.adminPort !== undefined
    if (this.#proxy !== undefined) {
      const isOwn = (path: string): boolean => !hasAdminPort && ADMIN_PATHS.has(path)
      this.#main = this.#proxy.newListener(onPort, isOwn, answer(admin))
    } else {
      const endpoint: Endpoint = { methods: ['POST'], handle: (req, res) => decision.handle(req, res) }
      const newFront: ListenerOptions['newFront'] = (handOver) => new DecisionWire(decision, options, handOver)
      const handle = answer([['/v1/decision', endpoint], ...(hasAdminPort ? [] : admin)])
      this.#main = plainListener(onPort, handle, options.hasFastWire === false ? undefined : newFront)
    }
    this.#admin = hasAdminPort ? plainListener(onPort, answer(admin)) : undefined
  }

  /** Answers the port. */
  async listen(on: ListenOn): Promise<number> {
    const port = await this.#main.listen(on)
    this.#isListening = true
    return port
  }

  /** To be called where there is an admin port. */
  listenAdmin(on: ListenOn): Promise<number> {
    return this.#admin!.listen(on)
  }

  /** Not ready from now on, but serving: load balancers need time to notice. */
  drain(): void {
    this.#isShuttingDown = true
    this.#main.drain()
    this.#admin?.drain()
  }

  async close(): Promise<void> {
    this.drain()
    if (this.#proxy === undefined) await this.#main.close(DECISION_GRACE_MS)
    else await this.#main.close(this.#options.shutdownMs, () => this.#proxy!.cutTunnels())
    this.#proxy?.close()
    await this.#admin?.close(DECISION_GRACE_MS)
  }

  *#healthEndpoints(parts: ServerParts): Generator<[string, Endpoint]> {
    const { bundle, hasSharedStore } = parts
    const health = { bundle, hasSharedStore, isShuttingDown: () => this.#isShuttingDown, isListening: () => this.#isListening }
    const methods = ['GET', 'HEAD']
    yield ['/livez', { methods, handle: handleLivez }]
    yield ['/readyz', { methods, handle: (_req, res) => handleReadyz(health, res) }]
    yield ['/metrics', { methods, handle: (_req, res) => respondText(res, 200, Exposition.contentType, this.#metrics.text()) }]
  }

  /** Without a secret there is nothing here to find. */
  *#debugEndpoints(parts: ServerParts, sessions: DebugSessions | undefined): Generator<[string, Endpoint]> {
    if (sessions === undefined) return
    const { clock, logger, metricMemory, wrongSecrets } = parts
    const logins = new CounterFamily(metricMemory, 'edge_debug_logins_total')
    const debug = new DebugEndpoints(sessions, logger, logins, () => clock.nowMs(), wrongSecrets)
    yield ['/v1/debug/session', { methods: ['POST'], handle: (req, res) => debug.handleLogin(req, res) }]
    yield ['/v1/debug/logout', { methods: ['POST'], handle: (req, res) => debug.handleLogout(req, res) }]
  }
}

/** A port without bodies: none is ever read here, so none is invited, and what follows on the connection cannot be told from it. */
function plainListener(options: PortOptions, handle: Handle, newFront?: ListenerOptions['newFront']): HttpListener {
  const handleExpecting: Handle = (req, res) => {
    res.shouldKeepAlive = false
    handle(req, res)
  }
  return new HttpListener({ ...options, handle, handleExpecting, requiresHost: true, newFront })
}
