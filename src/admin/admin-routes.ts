import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import { cookieHeader, headerValue } from '../http1/header-fields.ts'
import type { ConnectionShares } from '../listen/connection-slots.ts'
import { type Route, respondEmpty, respondJson, respondText } from '../listen/node-http/routes.ts'
import type { BundleInfo } from '../policy/plan.ts'
import type { DebugSessions } from '../sessions/debug-sessions.ts'
import type { WrongSecrets } from '../sessions/wrong-secrets.ts'
import type { StoreStats } from '../store/counter-store.ts'
import { Exposition, type MetricSources } from '../telemetry/metrics/exposition.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'
import { type AdminApi, API_PATH } from './api/admin-api.ts'
import { consoleRoutes } from './console-page.ts'
import { MetricsEndpoint } from './metrics-endpoint.ts'

export interface AdminRouteParts extends Health {
  readonly mode: ServerConfig['mode']
  readonly clock: Clock
  readonly logger: Logger
  readonly storeStats: () => StoreStats
  readonly metricMemory: MetricMemory
  readonly shares: ConnectionShares
  /** How the backends of the active bundle's routes cool. */
  readonly backendStates: MetricSources['backends']
  readonly debugSessions: DebugSessions | undefined
  /** Undefined if there is no admin token. */
  readonly api: AdminApi | undefined
  readonly wrongSecrets: WrongSecrets
}

/** Yields all routes for operators. */
export function* adminRoutes(parts: AdminRouteParts): Generator<Route> {
  const methods = ['GET', 'HEAD']
  const metrics = new MetricsEndpoint(newExposition(parts))
  yield { path: '/livez', methods, handle: handleLivez }
  yield { path: '/readyz', methods, handle: (_req, res) => handleReadyz(parts, res) }
  yield { path: '/metrics', methods, handle: ({ headers }, res) => metrics.handle(res, headers['accept-encoding']) }
  const { api } = parts
  if (api !== undefined) {
    yield { path: API_PATH, methods: undefined, handle: (req, res) => api.handle(req, res) }
    yield* consoleRoutes()
  }
  // Without a secret there are no debug sessions, so their paths do not exist.
  if (parts.debugSessions === undefined) return
  const { clock, logger, metricMemory, wrongSecrets } = parts
  const logins = new CounterFamily(metricMemory, 'edge_debug_logins_total')
  const debug = new DebugEndpoints(parts.debugSessions, logger, logins, () => clock.nowMs(), wrongSecrets)
  yield { path: '/v1/debug/session', methods: ['POST'], handle: (req, res) => debug.handleLogin(req, res) }
  yield { path: '/v1/debug/logout', methods: ['POST'], handle: (req, res) => debug.handleLogout(req, res) }
}

function newExposition({ metricMemory, bundle, storeStats, shares, backendStates, mode, hasSharedStore }: AdminRouteParts): Exposition {
  const connections = (): ReturnType<ConnectionShares['all']> => shares.all()
  const [isProxy, isFleet] = [mode === 'reverse_proxy', hasSharedStore !== undefined]
  return new Exposition({ memory: metricMemory, bundle, storeStats, connections, backends: backendStates, isProxy, isFleet })
}

interface Health {
  readonly bundle: () => BundleInfo | undefined
  readonly isShuttingDown: () => boolean
  /** Whether all listeners for requests are open. */
  readonly isListening: () => boolean
  /** Whether the bundle knows callers by issued keys, and those of the last run or of the fleet have not arrived yet. */
  readonly lacksIssuedKeys: () => boolean
  /** Whether the shared store is reachable; undefined if this process keeps its own counters. */
  readonly hasSharedStore?: (() => boolean) | undefined
}

/** GET /livez: responds as long as the process runs. */
function handleLivez(_req: IncomingMessage, res: ServerResponse): void {
  respondText(res, 200, 'text/plain; charset=utf-8', 'ok')
}

/** GET /readyz: whether requests can be decided. */
function handleReadyz(health: Health, res: ServerResponse): void {
  const bundle = health.bundle()
  if (health.isShuttingDown()) respondJson(res, 503, { status: 'not_ready', reason: 'shutting_down' })
  else if (bundle === undefined) respondJson(res, 503, { status: 'not_ready', reason: 'no_policy_loaded' })
  else if (!health.isListening()) respondJson(res, 503, { status: 'not_ready', reason: 'starting' })
  else if (health.lacksIssuedKeys()) respondJson(res, 503, { status: 'not_ready', reason: 'no_keys_loaded' })
  else {
    const { version, hash, updatedAtS } = bundle
    const body = { status: 'ready', policy_version: version, policy_hash: hash, last_config_update: updatedAtS }
    // An unreachable Redis is reported but does not fail readiness, because the failure mode decides in the meantime, and it does so on every
    // instance.
    const redis = health.hasSharedStore?.() ? 'connected' : 'unavailable'
    respondJson(res, 200, health.hasSharedStore === undefined ? body : { ...body, redis })
  }
}

/** Number of wrong secrets from one peer within a minute that are logged and delayed. */
const MAX_LOGGED = 10
const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 1000

/** POST /v1/debug/session and /v1/debug/logout. */
class DebugEndpoints {
  readonly #sessions: DebugSessions
  readonly #logger: Logger
  readonly #logins: CounterFamily
  readonly #nowMs: () => number
  readonly #wrongSecrets: WrongSecrets

  constructor(sessions: DebugSessions, logger: Logger, logins: CounterFamily, nowMs: () => number, wrongSecrets: WrongSecrets) {
    this.#sessions = sessions
    this.#logger = logger
    this.#logins = logins
    this.#nowMs = nowMs
    this.#wrongSecrets = wrongSecrets
  }

  handleLogin(req: IncomingMessage, res: ServerResponse): void {
    if (!this.#sessions.isSecret(headerValue(req.rawHeaders, 'x-edge-debug-secret'))) return this.#refuse(req, res)
    this.#logins.series('opened').count++
    this.#logger.info({ event: 'debug_session_opened' }, 'a debug session was opened')
    res.writeHead(204, ['Set-Cookie', this.#sessions.open(), 'Cache-Control', 'no-store']).end()
  }

  handleLogout(req: IncomingMessage, res: ServerResponse): void {
    res.writeHead(204, ['Set-Cookie', this.#sessions.close(cookieHeader(req.rawHeaders)), 'Cache-Control', 'no-store']).end()
  }

  /**
   * Always responds with 403. The first wrong secrets of a minute from one peer are logged and delayed, each longer than the one before; further ones
   * cost as little as possible. None of this stops guessing: only a long secret does.
   */
  #refuse(req: IncomingMessage, res: ServerResponse): void {
    this.#logins.series('refused').count++
    const count = this.#wrongSecrets.add(req.socket.remoteAddress, this.#nowMs())
    if (count > MAX_LOGGED) return respondEmpty(res, 403)
    const delayMs = count === 1 ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (count - 2))
    this.#logger.warn({ event: 'debug_session_refused', delay_ms: delayMs }, 'a debug session was refused: wrong secret')
    if (delayMs === 0) return respondEmpty(res, 403)
    const timer = setTimeout(() => respondEmpty(res, 403), delayMs)
    res.once('close', () => clearTimeout(timer))
  }
}
