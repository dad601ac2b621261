import { AdminEndpoints } from '../admin/admin-endpoints.ts'
import { type AdminRouteParts, adminRoutes } from '../admin/admin-routes.ts'
import { newAdminServer } from '../admin/admin-server.ts'
import type { ServerConfig } from '../config/config.ts'
import { DebugSessions, type Logouts } from '../decide/debug-sessions.ts'
import { DecisionPipeline } from '../decide/decision-pipeline.ts'
import { newDecisionServer } from '../doors/http1/decision-server.ts'
import type { Engine } from '../engine/engine.ts'
import { respondNotFound } from '../http/routes.ts'
import type { ListenerServer } from '../listen/listener-server.ts'
import { ListenerServers } from '../listen/listener-servers.ts'
import { type ListenerName, openListeners } from '../listen/listeners.ts'
import { type ConnectionParts, portOptionsOf } from '../listen/port-options.ts'
import type { BodyMemory } from '../proxy/body-memory.ts'
import { ProxyFront } from '../proxy/proxy-front.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { DecisionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { ProxyServer } from './proxy-server.ts'

export type ServerOptions = ServerConfig & { readonly hasFastWire?: boolean }

export type ServerParts = ConnectionParts &
  Pick<AdminRouteParts, 'bundle' | 'storeStats' | 'hasSharedStore' | 'wrongSecrets'> & {
    readonly engine: Engine
    readonly logouts: Logouts
    readonly bodyMemory: BodyMemory
  }

/** A server for each listener that the settings open. Where operators have none of their own, they are served beside the requests. */
export function newServers(config: ServerOptions, parts: ServerParts): ListenerServers {
  const { engine, clock, logger, metricMemory, bodyMemory, places, logouts } = parts
  const { debugSessionSecret: secret } = config
  const debugSessions = secret === undefined ? undefined : new DebugSessions(secret, () => clock.wallMs(), logouts)
  const pipeline = new DecisionPipeline({ engine, clock, logger, metrics: new DecisionMetrics(metricMemory), debugSessions })
  const health = { isListening: () => servers.isListening, isShuttingDown: () => servers.isDraining }
  const admin = new AdminEndpoints(adminRoutes({ ...parts, ...health, debugSessions, mode: config.mode }), {
    clock,
    logger,
    failures: new CounterFamily(metricMemory, 'edge_admin_failures_total').series(),
  })
  const open = openListeners(config)
  const hasAdminListener = open.includes('admin')
  const portOptions = portOptionsOf(config, parts)
  const newServer: Readonly<Record<ListenerName, () => ListenerServer>> = {
    main: () => {
      if (config.mode === 'decision_service') {
        const handleOther = hasAdminListener ? respondNotFound : admin.handle.bind(admin)
        return newDecisionServer(pipeline, portOptions('main'), { handleOther, hasFastWire: config.hasFastWire })
      }
      const front = new ProxyFront(config, metricMemory, places.backend, { pipeline, engine, clock, logger, bodyMemory })
      const isOwn = (path: string): boolean => !hasAdminListener && admin.covers(path)
      return new ProxyServer(front, front.newListener(portOptions('main'), isOwn, admin.handle.bind(admin)))
    },
    admin: () => newAdminServer(admin, portOptions('admin')),
  }
  const servers: ListenerServers = new ListenerServers(config, new Map(open.map((name) => [name, newServer[name]()])))
  return servers
}
