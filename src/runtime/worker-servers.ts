import { WrongSecrets } from '../admin/wrong-secrets.ts'
import { RevokedSessions } from '../decide/revoked-sessions.ts'
import { descriptorLimit } from '../files/descriptor-limit.ts'
import { connectionLimits } from '../listen/connection-limits.ts'
import { ConnectionShares } from '../listen/connection-shares.ts'
import { connectionSlotsOf } from '../listen/connection-slots.ts'
import type { ListenerServers } from '../listen/listener-servers.ts'
import { BodyMemory } from '../proxy/body-memory.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import type { WorkerDecisionLog } from './decision-log/worker-decision-log.ts'
import type { WorkerEvents } from './events/worker-events.ts'
import type { ServerCode } from './server-code.ts'
import { newServers } from './servers.ts'
import { ownerNumber } from './shared-memory.ts'
import type { WorkerEngine, WorkerStore } from './worker-engine.ts'
import type { WorkerContext } from './worker-parts.ts'
import type { WorkerPlans } from './worker-plans.ts'

export interface WorkerServersParts {
  readonly code: ServerCode
  readonly counters: WorkerStore
  readonly decider: WorkerEngine
  readonly plans: WorkerPlans
  readonly tracing: Tracing | undefined
  readonly events: WorkerEvents | undefined
  readonly decisionLog: WorkerDecisionLog | undefined
}

/** A worker's servers, on what it shares with the other threads. Nothing listens yet. */
export function newWorkerServers(context: WorkerContext, parts: WorkerServersParts): ListenerServers {
  const { config, memory, worker, clock, logger, metricMemory, control } = context
  const { code, counters, decider, plans, tracing, events, decisionLog } = parts
  const { store, fleet } = counters
  return newServers(config, code, {
    engine: decider.engine,
    clock,
    logger,
    bundle: () => plans.bundle,
    storeStats: () => store.stats(),
    hasSharedStore: fleet === undefined ? undefined : () => fleet.isConnected(),
    metricMemory,
    ...logoutsOf(context, counters),
    wrongSecrets: new WrongSecrets(memory.wrongSecrets),
    wrongTokens: new WrongSecrets(memory.wrongTokens),
    shares: new ConnectionShares(memory.connections, worker),
    bodyMemory: new BodyMemory(memory.bodies, worker, { ...config, hashKey: memory.hashKey }),
    reservations: { memory: memory.reservations, worker, callerDigest: decider.callerDigest, sharedMarks: fleet?.marks },
    control,
    noteDecided: decisionLog?.note,
    eventStreams: events?.streams,
    tracing,
    onPlanActive: (listener) => plans.onActive(listener),
    slots: connectionSlotsOf(memory.connectionSlots, worker, connectionLimits(descriptorLimit(), config)),
  })
}

/** Who logs out here is logged out in all threads, and in a fleet on all instances. */
function logoutsOf({ config, memory, worker }: WorkerContext, { fleet }: WorkerStore) {
  const owner = ownerNumber(worker)
  const revoked = new RevokedSessions(memory.revokedSessions, owner)
  const revokedAdmin = new RevokedSessions(memory.revokedAdminSessions, owner)
  return {
    logouts: fleet === undefined || config.debugSessionSecret === undefined ? revoked : fleet.shareLogouts(revoked),
    adminLogouts: fleet === undefined || config.adminToken === undefined ? revokedAdmin : fleet.shareAdminLogouts(revokedAdmin),
  }
}
