import { adminRoutes } from '../admin/admin-routes.ts'
import { AdminEndpoints, newAdminServer } from '../admin/admin-server.ts'
import type { IssuedKeys } from '../callers/keys/issued-keys.ts'
import type { WorkerEvents } from '../control/events/worker-events.ts'
import { openDecisionDebug } from '../decide/decision-debug.ts'
import { DecisionPipeline } from '../decide/decision-pipeline.ts'
import { SettlementRecorder } from '../decide/settlement-recorder.ts'
import { descriptorLimit } from '../files/descriptor-limit.ts'
import { ConnectionShares, connectionLimits, connectionSlotsOf } from '../listen/connection-slots.ts'
import type { PortOptions } from '../listen/http-listener.ts'
import { type ListenerServer, ListenerServers } from '../listen/listener-servers.ts'
import { type ListenerName, openListeners } from '../listen/listeners.ts'
import { portOptionsOf } from '../listen/port-options.ts'
import { BackendHealth } from '../proxy/backends/backend-health.ts'
import { BackendSlots } from '../proxy/backends/backend-slots.ts'
import { BodyMemory } from '../proxy/body/body-memory.ts'
import { Reservations } from '../reservations/reservations.ts'
import type { SecretValues } from '../secrets/header-template.ts'
import { DebugSessions } from '../sessions/debug-sessions.ts'
import { RevokedSessions } from '../sessions/revoked-sessions.ts'
import { WrongSecrets } from '../sessions/wrong-secrets.ts'
import { DecisionMetrics, QuestionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import type { WorkerTls } from '../tls/worker-tls.ts'
import type { WorkerDecisionLog } from './decision-log/worker-decision-log.ts'
import type { ServerCode } from './server-code.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'
import { ADMIN_LOGOUTS, DEBUG_LOGOUTS } from './shared-logouts.ts'
import { ownerNumber } from './shared-memory.ts'
import type { WorkerUsageLog } from './usage-log/worker-usage-log.ts'
import type { WorkerContext, WorkerEngine, WorkerPlans, WorkerStore } from './worker-engine.ts'

export interface WorkerServersParts {
  readonly code: ServerCode
  readonly secrets: SecretValues
  readonly counters: WorkerStore
  readonly decider: WorkerEngine
  readonly plans: WorkerPlans
  readonly tracing: Tracing | undefined
  readonly events: WorkerEvents | undefined
  readonly decisionLog: WorkerDecisionLog | undefined
  readonly usageLog: WorkerUsageLog | undefined
  readonly issuedKeys: IssuedKeys
  readonly tls: WorkerTls | undefined
}

/** Creates a worker's servers on the memory that it shares with the other threads. They do not listen yet. */
export function newWorkerServers(context: WorkerContext, parts: WorkerServersParts): ListenerServers {
  const { config, memory, worker, clock, logger, metricMemory, control } = context
  const { code, counters, decider, plans, tracing, events, decisionLog, usageLog, issuedKeys, secrets, tls } = parts
  const backendSlots = new BackendSlots(memory.backends, worker)
  const { store, fleet } = counters
  return newServers(config, code, {
    engine: decider.engine,
    clock,
    logger,
    bundle: () => plans.bundle,
    storeStats: () => store.stats(),
    lacksIssuedKeys: () => decider.engine.plan?.callers?.source.keys !== undefined && !issuedKeys.isLoaded,
    hasSharedStore: fleet === undefined ? undefined : () => fleet.isConnected(),
    metricMemory,
    ...logoutsOf(context, counters),
    wrongSecrets: new WrongSecrets(memory.wrongSecrets),
    wrongTokens: new WrongSecrets(memory.wrongTokens),
    shares: new ConnectionShares(memory.connections, worker),
    backendSlots,
    backendHealth: new BackendHealth({ slots: backendSlots, clock, worker, hashKey: memory.hashKey }),
    secrets,
    bodyMemory: new BodyMemory(memory.bodies, worker, { ...config, hashKey: memory.hashKey }),
    reservations: { memory: memory.reservations, worker, callerDigest: decider.callerDigest, sharedMarks: fleet?.marks },
    control,
    noteDecided: decisionLog?.note,
    noteUsage: usageLog?.note,
    eventStreams: events?.streams,
    tracing,
    onPlanActive: (listener) => plans.onActive(listener),
    onStreamCut: (cutter) => plans.onStreamCut(cutter),
    slots: connectionSlotsOf(memory.connectionSlots, worker, connectionLimits(descriptorLimit(), config)),
    securityOf: tls && ((name) => tls.of(name)),
  })
}

/** A logout here is effective in all threads, and in a fleet on all instances. */
function logoutsOf({ config, memory, worker }: WorkerContext, { fleet }: WorkerStore) {
  const owner = ownerNumber(worker)
  const revoked = new RevokedSessions(memory.revokedSessions, owner)
  const revokedAdmin = new RevokedSessions(memory.revokedAdminSessions, owner)
  return {
    logouts: fleet === undefined || config.debugSessionSecret === undefined ? revoked : fleet.shareLogouts(DEBUG_LOGOUTS, revoked),
    adminLogouts: fleet === undefined || config.adminToken === undefined ? revokedAdmin : fleet.shareLogouts(ADMIN_LOGOUTS, revokedAdmin),
  }
}

/** Creates a server for each listener that the settings open. Without an admin listener, the listeners for requests serve the admin endpoints too. */
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
    debug: openDecisionDebug(logger, parts.reservations.callerDigest),
    debugSessions,
    gateway,
    noteDecided: parts.noteDecided,
    tracing: parts.tracing,
    hasLastResort: config.mode !== 'reverse_proxy' || config.backendUrl !== undefined,
  })
  const health = { isListening: () => servers.isListening, isShuttingDown: () => servers.isDraining }
  const backendStates = () => parts.backendHealth.statesOf([...(engine.plan?.routing?.backends.values() ?? [])])
  const isReady = (): boolean => !servers.isDraining && servers.isListening && engine.plan !== undefined && !parts.lacksIssuedKeys()
  const admin = new AdminEndpoints(
    adminRoutes({ ...parts, ...health, backendStates, debugSessions, api: code.newAdminApi?.(config, parts), mode: config.mode }),
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
