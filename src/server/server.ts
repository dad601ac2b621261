import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { Engine } from '../engine/engine.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import type { StoreStats } from '../store/counter-store.ts'
import { DebugEndpoints } from './debug-endpoints.ts'
import { DebugSessions } from './debug-sessions.ts'
import { DecisionEndpoint } from './decision-endpoint.ts'
import type { Endpoint } from './endpoints.ts'
import { handleLivez, handleReadyz } from './health-endpoints.ts'
import { HttpListener } from './http-listener.ts'
import { DecisionMetrics } from './metrics/decision-metrics.ts'
import { Exposition } from './metrics/exposition.ts'
import { respondText } from './respond.ts'

export interface ServerOptions {
  readonly port: number
  readonly host: string | undefined
  readonly adminPort: number | undefined
  readonly keepAliveMs: number
  readonly debugSessionSecret: string | undefined
}

export interface ServerParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly bundle: () => BundleInfo | undefined
  readonly storeStats: () => StoreStats
}

/** Decisions that take longer than this at shutdown are cut. */
const DECISION_GRACE_MS = 5000

/** The service's face to the network. */
export class EdgeServer {
  readonly metrics: Exposition
  readonly #options: ServerOptions
  readonly #main: HttpListener
  readonly #admin: HttpListener | undefined
  #isShuttingDown = false
  port = 0
  adminPort: number | undefined

  constructor(options: ServerOptions, parts: ServerParts) {
    const { engine, clock, logger } = parts
    const { keepAliveMs, debugSessionSecret } = options
    this.#options = options
    const decisions = new DecisionMetrics()
    this.metrics = new Exposition({ decisions, bundle: parts.bundle, storeStats: parts.storeStats })
    const debugSessions = debugSessionSecret === undefined ? undefined : new DebugSessions(debugSessionSecret, () => clock.wallMs())
    const decision = new DecisionEndpoint({ engine, clock, logger, metrics: decisions, debugSessions })
    const onError = decision.fail.bind(decision)
    const decisionEndpoints: [string, Endpoint][] = [
      ['/v1/decision', { methods: ['POST'], handle: (req, res) => decision.handle(req, res) }],
    ]
    const adminEndpoints = [...this.#healthEndpoints(parts), ...this.#debugEndpoints(parts, debugSessions)]
    const hasAdminPort = options.adminPort !== undefined
    const endpoints = new Map(hasAdminPort ? decisionEndpoints : [...decisionEndpoints, ...adminEndpoints])
    this.#main = new HttpListener({ endpoints, keepAliveMs, onError })
    this.#admin = hasAdminPort ? new HttpListener({ endpoints: new Map(adminEndpoints), keepAliveMs, onError }) : undefined
  }

  async listen(): Promise<void> {
    const { port, adminPort, host } = this.#options
    this.port = await this.#main.listen(port, host)
    if (this.#admin !== undefined) this.adminPort = await this.#admin.listen(adminPort!, host)
  }

  /** Not ready from now on, but serving: load balancers need time to notice. */
  drain(): void {
    this.#isShuttingDown = true
    this.#main.drain()
    this.#admin?.drain()
  }

  async close(): Promise<void> {
    this.drain()
    await this.#main.close(DECISION_GRACE_MS)
    await this.#admin?.close(DECISION_GRACE_MS)
  }

  *#healthEndpoints(parts: ServerParts): Generator<[string, Endpoint]> {
    const health = { bundle: parts.bundle, isShuttingDown: () => this.#isShuttingDown }
    const methods = ['GET', 'HEAD']
    yield ['/livez', { methods, handle: handleLivez }]
    yield ['/readyz', { methods, handle: (_req, res) => handleReadyz(health, res) }]
    yield ['/metrics', { methods, handle: async (_req, res) => respondText(res, 200, Exposition.contentType, await this.metrics.text()) }]
  }

  /** Without a secret there is nothing here to find. */
  *#debugEndpoints({ clock, logger }: ServerParts, sessions: DebugSessions | undefined): Generator<[string, Endpoint]> {
    if (sessions === undefined) return
    const debug = new DebugEndpoints(sessions, logger, this.metrics.debugLogins, () => clock.nowMs())
    yield ['/v1/debug/session', { methods: ['POST'], handle: (req, res) => debug.handleLogin(req, res) }]
    yield ['/v1/debug/logout', { methods: ['POST'], handle: (req, res) => debug.handleLogout(req, res) }]
  }
}
