import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { ServerConfig } from '../config/config.ts'
import type { DebugSessions } from '../decide/debug-sessions.ts'
import type { Route } from '../http/routes.ts'
import type { ConnectionShares } from '../listen/connection-shares.ts'
import type { StoreStats } from '../store/counter-store.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { Exposition } from '../telemetry/metrics/exposition.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { type AdminApi, API_PATH } from './api/admin-api.ts'
import { DebugEndpoints } from './debug-endpoints.ts'
import { type Health, handleLivez, handleReadyz } from './health-endpoints.ts'
import { MetricsEndpoint } from './metrics-endpoint.ts'
import { consoleRoutes } from './page/console-page.ts'
import type { WrongSecrets } from './wrong-secrets.ts'

export interface AdminRouteParts extends Health {
  readonly mode: ServerConfig['mode']
  readonly clock: Clock
  readonly logger: Logger
  readonly storeStats: () => StoreStats
  readonly metricMemory: MetricMemory
  readonly shares: ConnectionShares
  readonly debugSessions: DebugSessions | undefined
  /** Undefined where operators have no token. */
  readonly api: AdminApi | undefined
  readonly wrongSecrets: WrongSecrets
}

/** Everything that operators can ask. */
export function* adminRoutes(parts: AdminRouteParts): Generator<Route> {
  const methods = ['GET', 'HEAD']
  const metrics = new MetricsEndpoint(newExposition(parts))
  yield { path: '/livez', methods, handle: handleLivez }
  yield { path: '/readyz', methods, handle: (_req, res) => handleReadyz(parts, res) }
  yield { path: '/metrics', methods, handle: (_req, res) => metrics.handle(res) }
  const { api } = parts
  if (api !== undefined) {
    yield { path: API_PATH, methods: undefined, handle: (req, res) => api.handle(req, res) }
    yield* consoleRoutes()
  }
  // Without a secret there is nothing here to find.
  if (parts.debugSessions === undefined) return
  const { clock, logger, metricMemory, wrongSecrets } = parts
  const logins = new CounterFamily(metricMemory, 'edge_debug_logins_total')
  const debug = new DebugEndpoints(parts.debugSessions, logger, logins, () => clock.nowMs(), wrongSecrets)
  yield { path: '/v1/debug/session', methods: ['POST'], handle: (req, res) => debug.handleLogin(req, res) }
  yield { path: '/v1/debug/logout', methods: ['POST'], handle: (req, res) => debug.handleLogout(req, res) }
}

function newExposition({ metricMemory, bundle, storeStats, shares, mode, hasSharedStore }: AdminRouteParts): Exposition {
  const connections = (): ReturnType<ConnectionShares['all']> => shares.all()
  const [isProxy, isFleet] = [mode === 'reverse_proxy', hasSharedStore !== undefined]
  return new Exposition({ memory: metricMemory, bundle, storeStats, connections, isProxy, isFleet })
}
