import { BudgetWarnings } from '../decide/budget-warnings.ts'
import type { OnBudgetWarning } from '../engine/budget-warning.ts'
import type { CallerDigest } from '../engine/caller-digest.ts'
import { Engine } from '../engine/engine.ts'
import { OpenReservations } from '../engine/open-reservations.ts'
import { PlanSwitch } from '../engine/plan-switch.ts'
import { IpDatabases } from '../ip-data/ip-databases.ts'
import { CallerDigester } from '../store/caller-digester.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { EmbeddedStore } from '../store/embedded-store.ts'
import { SharedTable } from '../store/shared-table.ts'
import { BudgetWarningMetrics } from '../telemetry/metrics/budget-warning-metrics.ts'
import { TopCallers } from '../top/top-callers.ts'
import type { Fleet } from './fleet.ts'
import { ownerNumber } from './shared-memory.ts'
import type { WorkerContext } from './worker-parts.ts'

/** Where a worker counts. */
export interface WorkerStore {
  readonly store: CounterStore
  /** Undefined without Redis. */
  readonly fleet: Fleet | undefined
}

/** The counters in the memory that all threads share, or those in Redis with these behind them. */
export async function openWorkerStore(context: WorkerContext): Promise<WorkerStore> {
  const { config, memory, worker } = context
  const local = new EmbeddedStore(new SharedTable(memory.table, ownerNumber(worker)), memory.hashKey)
  if (config.redis === undefined) return { store: local, fleet: undefined }
  // The client for Redis takes longer to load than all else that a worker needs.
  const { Fleet } = await import('./fleet.ts')
  const fleet = new Fleet(config.redis, { ...context, local, reservations: memory.reservations })
  return { store: fleet.store, fleet }
}

/** What decides, and what it decides by. */
export interface WorkerEngine {
  readonly engine: Engine
  /** The plans that are ready in this worker; all workers turn to the next one together. */
  readonly plans: PlanSwitch
  readonly ipDatabases: IpDatabases
  /** Names callers without showing their values. A fleet has one key for it. */
  readonly digest: CallerDigester
  readonly callerDigest: CallerDigest
  /** Undefined where operators cannot ask who is rejected most. */
  readonly top: TopCallers | undefined
  stop(): void
}

/** How often what is kept of callers is looked through for what is too old. */
const SWEEP_MS = 60_000

export function newWorkerEngine(context: WorkerContext, store: CounterStore): WorkerEngine {
  const { config, memory, clock, logger, metricMemory } = context
  const ipDatabases = new IpDatabases((path, problem) =>
    logger.error({ event: 'ip_file_refused', path, problem }, 'IP file refused; the previous data stays active'),
  )
  const plans = new PlanSwitch(new Int32Array(memory.plan))
  const digest = new CallerDigester(memory.hashKey)
  const callerDigest: CallerDigest = (values) => digest.of(values)
  const warnings = new BudgetWarnings({ clock, logger, metrics: new BudgetWarningMetrics(metricMemory), callerDigest })
  const onBudgetWarning: OnBudgetWarning = (warning) => warnings.note(warning)
  const isWatched = config.adminToken !== undefined && config.top
  const top = isWatched ? new TopCallers({ store, hashKey: memory.hashKey, callerDigest }) : undefined
  const sweep = top && setInterval(() => top.sweep(clock.nowMs()), SWEEP_MS).unref()
  const engine = new Engine({
    store,
    clock,
    identification: { trustedProxies: config.trustedProxies, ipFacts: ipDatabases.facts },
    planSwitch: plans,
    onBudgetWarning,
    callerDigest,
    callerWatch: top,
    openReservations: newOpenReservations(context),
  })
  return { engine, plans, ipDatabases, digest, callerDigest, top, stop: () => clearInterval(sweep) }
}

/** In decision_service reservations are settled by others, or never. */
function newOpenReservations({ config, memory, worker, clock }: WorkerContext): OpenReservations | undefined {
  if (config.mode !== 'reverse_proxy') return undefined
  return new OpenReservations({ memory: memory.openReservations, worker, hashKey: memory.hashKey, clock })
}
