import { AdminEndpoints } from '../admin/admin-endpoints.ts'
import { adminRoutes } from '../admin/admin-routes.ts'
import { newAdminServer } from '../admin/admin-server.ts'
import { DebugSessions } from '../decide/debug-sessions.ts'
import { DecisionPipeline } from '../decide/decision-pipeline.ts'
import { SettlementRecorder } from '../decide/settlement-recorder.ts'
import type { PortOptions } from '../listen/http-listener.ts'
import type { ListenerServer } from '../listen/listener-server.ts'
import { ListenerServers } from '../listen/listener-servers.ts'
import { type ListenerName, openListeners } from '../listen/listeners.ts'
import { portOptionsOf } from '../listen/port-options.ts'
import { Reservations } from '../reservations/reservations.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { DecisionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { QuestionMetrics } from '../telemetry/metrics/question-metrics.ts'
import type { ServerCode } from './server-code.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

/** A server for each listener that the settings open. Where operators have none of their own, they are served beside the requests. */
export function newServers(config: ServerOptions, code: ServerCode, parts: ServerParts): ListenerServers {
  const { engine, clock, logger, metricMemory, logouts } = parts
  const { debugSessionSecret: secret } = config
  const debugSessions = secret === undefined ? undefined : new DebugSessions(secret, () => clock.wallMs(), logouts)
  const settlementRecorder = new SettlementRecorder({ metricMemory, clock, logger })
  const reservations = new Reservations({ ...parts.reservations, engine, clock, listener: settlementRecorder })
  const gateway = config.mode === 'decision_service' ? { reservations, hasHints: config.gatewayHints } : undefined
  const pipeline = new DecisionPipeline({
    engine,
    clock,
    logger,
    metrics: new DecisionMetrics(metricMemory),
    questions: new QuestionMetrics(metricMemory),
    debugSessions,
    gateway,
    noteDecided: parts.noteDecided,
    tracing: parts.tracing,
  })
  const health = { isListening: () => servers.isListening, isShuttingDown: () => servers.isDraining }
  const isReady = (): boolean => !servers.isDraining && servers.isListening && engine.plan !== undefined
  const admin = new AdminEndpoints(
    adminRoutes({ ...parts, ...health, debugSessions, api: code.newAdminApi?.(config, parts), mode: config.mode }),
    {
      clock,
      logger,
      failures: new CounterFamily(metricMemory, 'edge_admin_failures_total').series(),
    },
  )
  const open = openListeners(config)
  const hasAdminListener = open.includes('admin')
  const portOptions = portOptionsOf(config, parts)
  const newMainServer = code.mainServers({
    ...parts,
    config,
    pipeline,
    admin: hasAdminListener ? undefined : admin,
    settling: [reservations, settlementRecorder],
  })
  const newGrpcServer = (options: PortOptions): ListenerServer => {
    const ignoredLimits = new CounterFamily(metricMemory, 'edge_rate_limit_ignored_limits_total').series()
    return code.newGrpcServer!(options, { pipeline, isReady, ignoredLimits })
  }
  const newServer: Readonly<Record<ListenerName, () => ListenerServer>> = {
    main: () => newMainServer(portOptions('main')),
    socket: () => newMainServer(portOptions('socket')),
    grpc: () => newGrpcServer(portOptions('grpc')),
    grpc_socket: () => newGrpcServer(portOptions('grpc_socket')),
    admin: () => newAdminServer(admin, portOptions('admin'), () => parts.eventStreams?.end()),
  }
  const servers: ListenerServers = new ListenerServers(config, new Map(open.map((name) => [name, newServer[name]()])))
  return servers
}
