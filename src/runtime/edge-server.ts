import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { DebugEndpoints } from '../admin/debug-endpoints.ts'
import { handleLivez, handleReadyz } from '../admin/health-endpoints.ts'
import type { WrongSecrets } from '../admin/wrong-secrets.ts'
import type { Clock } from '../clock.ts'
import type { ServerConfig } from '../config/config.ts'
import { DebugSessions, type Logouts } from '../decide/debug-sessions.ts'
import { DecisionPipeline } from '../decide/decision-pipeline.ts'
import { DecisionEndpoint, respondFailed } from '../doors/http1/decision-endpoint.ts'
import { DecisionWire } from '../doors/http1/decision-wire.ts'
import { QUESTION_SHAPES } from '../doors/question-shapes.ts'
import type { Engine } from '../engine/engine.ts'
import { dispatch, type Endpoint } from '../http/endpoints.ts'
import { respondText } from '../http/respond.ts'
import { AcceptErrors } from '../listen/accept-errors.ts'
import type { ConnectionKind, ConnectionPlaces } from '../listen/connection-places.ts'
import type { ConnectionShares } from '../listen/connection-shares.ts'
import { HttpListener, type ListenerOptions, type ListenerTimeouts, type PortOptions } from '../listen/http-listener.ts'
import type { ListenAddress, ListenTarget } from '../listen/listen-address.ts'
import { type ListenerName, listener } from '../listen/listeners.ts'
import { MalformedRequests } from '../listen/malformed-requests.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import type { BodyMemory } from '../proxy/body-memory.ts'
import { ProxyFront, type ProxyOptions } from '../proxy/proxy-front.ts'
import type { StoreStats } from '../store/counter-store.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { DecisionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { Exposition } from '../telemetry/metrics/exposition.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'

export type ServerOptions = ProxyOptions &
  ListenerTimeouts &
  Pick<ServerConfig, 'host' | 'port' | 'adminPort' | 'shutdownMs' | 'debugSessionSecret' | 'mode'> & {
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
  /** How many connections there may be, for the whole process. */
  readonly places: Readonly<Record<ConnectionKind, ConnectionPlaces>>
}

type Handle = (req: IncomingMessage, res: ServerResponse) => void

/** Ours in both modes, whether or not there is something behind them. */
const ADMIN_PATHS = new Set(['/livez', '/readyz', '/metrics', '/v1/debug/session', '/v1/debug/logout'])

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
    const { engine, clock, logger, metricMemory, shares, bodyMemory, places } = parts
    const { debugSessionSecret } = options
    const acceptErrors = new AcceptErrors(logger, () => clock.nowMs())
    const refused = new CounterFamily(metricMemory, 'edge_connections_refused_total')
    const onPort = (port: ListenerName): PortOptions => {
      const refusals = refused.series(port)
      const onFull = (): void => {
        refusals.count++
        acceptErrors.noteFull(port, places[port].max)
      }
      return { timeouts: options, shares, places: places[port], onFull, onAcceptError: (error) => acceptErrors.note(error) }
    }
    this.#options = options
    const debugSessions =
      debugSessionSecret === undefined ? undefined : new DebugSessions(debugSessionSecret, () => clock.wallMs(), parts.logouts)
    const pipeline = new DecisionPipeline({ engine, clock, logger, metrics: new DecisionMetrics(metricMemory), debugSessions })
    const isProxy = options.mode === 'reverse_proxy'
    const proxyParts = { pipeline, engine, clock, logger, bodyMemory }
    this.#proxy = isProxy ? new ProxyFront(options, metricMemory, places.backend, proxyParts) : undefined
    const { bundle, storeStats, hasSharedStore } = parts
    const isFleet = hasSharedStore !== undefined
    this.#metrics = new Exposition({ memory: metricMemory, bundle, storeStats, connections: () => shares.all(), isProxy, isFleet })
    const onError = (res: ServerResponse, error: unknown): void => respondFailed(pipeline, res, error)
    const answer = (endpoints: Iterable<[string, Endpoint]>): Handle => {
      const byPath = new Map(endpoints)
      return (req, res) => dispatch(byPath, req, res, onError)
    }
    const admin = [...this.#healthEndpoints(parts), ...this.#debugEndpoints(parts, debugSessions)]
    const hasAdminPort = options.adminPort !== undefined
    if (this.#proxy !== undefined) {
      const isOwn = (path: string): boolean => !hasAdminPort && ADMIN_PATHS.has(path)
      this.#main = this.#proxy.newListener(onPort('main'), isOwn, answer(admin))
    } else {
      const questions = QUESTION_SHAPES.map((shape): [string, Endpoint] => [shape.path, new DecisionEndpoint(shape, pipeline)])
      const newFront: ListenerOptions['newFront'] = (handOver) => new DecisionWire(pipeline, options, handOver)
      const handle = answer([...questions, ...(hasAdminPort ? [] : admin)])
      this.#main = plainListener(onPort('main'), handle, options.hasFastWire === false ? undefined : newFront)
    }
    this.#admin = hasAdminPort ? plainListener(onPort('admin'), answer(admin)) : undefined
  }

  async listen(name: ListenerName, target: ListenTarget): Promise<ListenAddress> {
    const address = await (name === 'main' ? this.#main : this.#admin!).listen(target)
    if (name === 'main') this.#isListening = true
    return address
  }

  /** Not ready from now on, but serving: load balancers need time to notice. */
  drain(): void {
    this.#isShuttingDown = true
    this.#main.drain()
    this.#admin?.drain()
    this.#proxy?.drain()
  }

  async close(): Promise<void> {
    this.drain()
    // The admin port tells of what is still open, so it goes last.
    await this.#main.close(listener('main').closeMs(this.#options), () => this.#proxy?.cutTunnels())
    this.#proxy?.close()
    await this.#admin?.close(listener('admin').closeMs(this.#options))
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

// RFC 9110 7.8: Upgrade means nothing where Connection does not name it
const UPGRADE = /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i

/** A port without bodies: none is ever read here, so none is invited, and what follows on the connection cannot be told from it. */
function plainListener(options: PortOptions, handle: Handle, newFront?: ListenerOptions['newFront']): HttpListener {
  const malformed = new MalformedRequests()
  const handleNoted: Handle = (req, res) => {
    malformed.note(req, res)
    // No protocol is offered, but what came with such a request Node takes for the protocol, and drops it.
    if (req.headers.upgrade !== undefined && UPGRADE.test(req.headers.connection ?? '')) res.shouldKeepAlive = false
    handle(req, res)
  }
  const handleExpecting: Handle = (req, res) => {
    res.shouldKeepAlive = false
    handleNoted(req, res)
  }
  const configure = (server: Server): void => malformed.configure(server)
  return new HttpListener({ ...options, handle: handleNoted, handleExpecting, requiresHost: true, configure, newFront })
}
