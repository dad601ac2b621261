import type { Logger } from 'pino'
import { policiesOf, pricesOf, routingOf } from '../bundle/shared-bundle.ts'
import type { ServerConfig } from '../config/config.ts'
import type { ControlLink } from '../control/control-link.ts'
import type { SilentBackend } from '../control/silent-requests.ts'
import type { FromWorker, ToWorker } from '../control/thread-messages.ts'
import { BudgetWarnings } from '../decide/budget-warnings.ts'
import { type CallerReaderOf, PlanSwitch } from '../engine/active-plan.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import { Engine } from '../engine/engine.ts'
import { OpenReservations } from '../engine/open-reservations.ts'
import type { OnBudgetWarning } from '../engine/watchers.ts'
import { IpDatabases, type IpFile } from '../ip-data/ip-databases.ts'
import type { OverridesChange, TimedOverride } from '../overrides/override.ts'
import { PlanBuilder } from '../policy/compile.ts'
import type { BundleInfo, Plan } from '../policy/plan.ts'
import { CallerDigester } from '../store/caller-digester.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { Deadlines } from '../store/redis/link/call.ts'
import { EmbeddedStore } from '../store/table/embedded-store.ts'
import { SharedTable } from '../store/table/shared-table.ts'
import type { EventTap } from '../telemetry/events/published-events.ts'
import { BudgetWarningMetrics } from '../telemetry/metrics/decision-metrics.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'
import { inSlices } from '../time/slices.ts'
import { TopCallers } from '../top/top-callers.ts'
import type { Fleet } from './fleet.ts'
import type { StreamCutter } from './server-parts.ts'
import { ownerNumber, type SharedMemory } from './shared-memory.ts'

/** The counters that a worker uses. */
export interface WorkerStore {
  readonly store: CounterStore
  /** Undefined without Redis. */
  readonly fleet: Fleet | undefined
}

/** Opens the counters in the memory that all threads share, or those in Redis, which fall back on the former. */
export async function openWorkerStore(context: WorkerContext): Promise<WorkerStore> {
  const { config, memory, worker } = context
  const local = new EmbeddedStore(new SharedTable(memory.table, ownerNumber(worker)), memory.hashKey)
  if (config.redis === undefined) return { store: local, fleet: undefined }
  // The Redis client takes longer to load than everything else that a worker needs.
  const { Fleet } = await import('./fleet.ts')
  const fleet = new Fleet(config.redis, { ...context, local, reservations: memory.reservations })
  return { store: fleet.store, fleet }
}

/** A worker's engine and what it decides by. */
export interface WorkerEngine {
  readonly engine: Engine
  /** Plans that are ready in this worker. All workers switch to the next one together. */
  readonly plans: PlanSwitch
  readonly ipDatabases: IpDatabases
  /** Names callers without showing their values. All instances of a fleet use the same key. */
  readonly digest: CallerDigester
  readonly callerDigest: CallerDigest
  /** Undefined if operators cannot ask who is rejected most. */
  readonly top: TopCallers | undefined
  /** Whether clients are told of whole limits in RateLimit-Policy. */
  readonly statesQuotas: boolean
  stop(): void
}

/** Interval at which outdated entries about callers are removed. */
const SWEEP_MS = 60_000

export function newWorkerEngine(context: WorkerContext, store: CounterStore, callerReaderOf: CallerReaderOf): WorkerEngine {
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
  const openReservations = newOpenReservations(context)
  const top = isWatched ? new TopCallers({ store, hashKey: memory.hashKey, callerDigest, openReservations }) : undefined
  const sweep = top && setInterval(() => top.sweep(clock.nowMs()), SWEEP_MS).unref()
  const engine = new Engine({
    store,
    clock,
    identification: { trustedProxies: config.trustedProxies, ipFacts: ipDatabases.facts },
    planSwitch: plans,
    onBudgetWarning,
    callerDigest,
    callerWatch: top,
    callerReaderOf,
    openReservations,
  })
  return { engine, plans, ipDatabases, digest, callerDigest, top, statesQuotas: config.ratelimitPolicy, stop: () => clearInterval(sweep) }
}

/** Open reservations are tracked only in reverse_proxy. In decision_service, gateways settle them, or nobody does. */
function newOpenReservations({ config, memory, worker, clock }: WorkerContext): OpenReservations | undefined {
  if (config.mode !== 'reverse_proxy') return undefined
  return new OpenReservations({ memory: memory.openReservations, worker, hashKey: memory.hashKey, clock })
}

type PrepareMessage = ToWorker & { readonly type: 'prepare' }

/** Prepares bundles in a worker's engine: each is compiled beside the active one and reported to the supervisor, which makes it active. */
export class WorkerPlans {
  readonly #decider: WorkerEngine
  readonly #send: (message: FromWorker) => void
  readonly #bundles = new Map<number, BundleInfo>()
  readonly #listeners: (() => void)[] = []
  readonly #cutters: StreamCutter[] = []
  /** Chains the preparations, so that bundles are compiled one after the other. */
  #preparing: Promise<void> = Promise.resolve()

  constructor(decider: WorkerEngine, send: (message: FromWorker) => void) {
    this.#decider = decider
    this.#send = send
  }

  /** The active bundle. */
  get bundle(): BundleInfo | undefined {
    return this.#bundles.get(this.#decider.plans.generation)
  }

  /** Resolves when all bundles that have arrived so far are ready. */
  get prepared(): Promise<void> {
    return this.#preparing
  }

  /** Registers a callback for each time that a plan becomes active. */
  onActive(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Registers what ends streams when an override wants that. */
  onStreamCut(cutter: StreamCutter): void {
    this.#cutters.push(cutter)
  }

  /** Resolves when the streams that blocks in force cover have been ended. */
  async cutBlockedStreams(): Promise<void> {
    await Promise.all(this.#cutters.map((cutter) => cutter.cutBlockedStreams()))
  }

  silentRequests(): SilentBackend[] {
    return this.#cutters.flatMap((cutter) => cutter.silentRequests())
  }

  /** Ends the requests of these callers that are under way in this worker. */
  async endCallers(ids: ReadonlySet<string>): Promise<number> {
    const ended = await Promise.all(this.#cutters.map((cutter) => cutter.endCallers(ids)))
    return ended.reduce((sum, count) => sum + count, 0)
  }

  changeOverrides(change: OverridesChange): void {
    this.#decider.engine.changeOverrides(change)
    const moments = new Set(change.put.filter(cutsStreams).map(({ fromMs }) => fromMs))
    for (const atMs of moments) for (const cutter of this.#cutters) cutter.cutBlockedStreamsAt(atMs)
  }

  useIpFile(file: IpFile): void {
    this.#decider.ipDatabases.use(file)
  }

  prepare(message: PrepareMessage): Promise<void> {
    this.#preparing = this.#preparing.then(() => this.#prepare(message))
    return this.#preparing
  }

  noteActive(): void {
    // Reading the plan releases the previous one. Until a request comes, nothing else would read it.
    void this.#decider.engine.plan
    for (const listener of this.#listeners) listener()
  }

  async #prepare(message: PrepareMessage): Promise<void> {
    const { generation, info } = message
    const { ipDatabases, plans } = this.#decider
    let problem: string | undefined
    try {
      await ipDatabases.prepareFor(await inSlices(this.#stepsOf(message)))
      for (const older of this.#bundles.keys()) if (older < plans.generation) this.#bundles.delete(older)
      this.#bundles.set(generation, info)
    } catch (error) {
      problem = `it cannot be compiled: ${(error as Error).message}`
    }
    this.#send({ type: 'prepared', generation, problem })
  }

  *#stepsOf({ generation, bundle, sincesMs }: PrepareMessage): Generator<void, Plan> {
    const builder = new PlanBuilder(
      bundle.version,
      pricesOf(bundle),
      bundle.callers,
      routingOf(bundle),
      bundle.usage,
      this.#decider.statesQuotas,
    )
    for (const policy of policiesOf(bundle)) {
      builder.add(policy)
      yield
    }
    const plan = builder.build()
    yield* this.#decider.engine.prepare(generation, plan, sincesMs)
    return plan
  }
}

function cutsStreams({ override: { change } }: TimedOverride): boolean {
  return change.kind === 'block' && change.cutsStreams === true
}

/** The parts that a worker is started with. */
export interface WorkerParts {
  readonly config: ServerConfig
  readonly memory: SharedMemory
  /** Number of the worker, from 1. */
  readonly worker: number
  readonly clock: Clock
  readonly logger: Logger
  /** Taps the logger. Undefined if the main thread already hears this logger, or if nobody can watch events. */
  readonly tap?: EventTap | undefined
  readonly send: (message: FromWorker) => void
  /** Deadlines of calls to Redis; real time unless a test controls it. */
  readonly deadlines?: Deadlines | undefined
  /** Finds out who sends a request, in tests that need no real credentials. */
  readonly callerReaderOf?: CallerReaderOf | undefined
}

/** The parts that every phase of a worker's start may use. */
export interface WorkerContext extends WorkerParts {
  /** This worker's lane of the metrics. */
  readonly metricMemory: MetricMemory
  /** Asks the main thread on behalf of operators. */
  readonly control: ControlLink
}
