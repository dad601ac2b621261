import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { WrongSecrets } from '../admin/wrong-secrets.ts'
import { policiesOf, pricesOf } from '../bundle/shared-bundle.ts'
import type { Clock } from '../clock.ts'
import { hasEvents, type ServerConfig } from '../config/config.ts'
import { BudgetWarnings } from '../decide/budget-warnings.ts'
import { RevokedSessions } from '../decide/revoked-sessions.ts'
import { DecisionLines } from '../decision-log/decision-lines.ts'
import type { OnBudgetWarning } from '../engine/budget-warning.ts'
import { Engine } from '../engine/engine.ts'
import { OpenReservations } from '../engine/open-reservations.ts'
import { PlanSwitch } from '../engine/plan-switch.ts'
import { descriptorLimit } from '../files/descriptor-limit.ts'
import { IpDatabases } from '../ip-data/ip-databases.ts'
import { connectionLimits } from '../listen/connection-limits.ts'
import { placesOf } from '../listen/connection-places.ts'
import { ConnectionShares } from '../listen/connection-shares.ts'
import type { ListenerServers } from '../listen/listener-servers.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import { PlanBuilder } from '../policy/compile.ts'
import type { Plan } from '../policy/plan.ts'
import { BodyMemory } from '../proxy/body-memory.ts'
import { inSlices } from '../slices.ts'
import { CallerDigest } from '../store/caller-digest.ts'
import { EmbeddedStore } from '../store/embedded-store.ts'
import type { Deadlines } from '../store/redis/link/deadlines.ts'
import { SharedTable } from '../store/shared-table.ts'
import type { EventTap } from '../telemetry/events/event-tap.ts'
import { BudgetWarningMetrics } from '../telemetry/metrics/budget-warning-metrics.ts'
import { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import { TopCallers } from '../top/top-callers.ts'
import { resultOf } from './control/call-result.ts'
import type { WorkerHandlers } from './control/control-calls.ts'
import { ControlLink } from './control/control-link.ts'
import type { FleetNews } from './control/fleet-news.ts'
import { WorkerDecisionLog } from './decision-log/worker-decision-log.ts'
import { WorkerEvents } from './events/worker-events.ts'
import type { Fleet } from './fleet.ts'
import { openTracing, TRACES_CLOSE_MS } from './open-tracing.ts'
import { loadServerCode, type ServerCode } from './server-code.ts'
import { newServers } from './servers.ts'
import { ownerNumber, type SharedMemory } from './shared-memory.ts'
import type { FromWorker, ToWorker } from './threads/messages.ts'
import { Vitals } from './vitals.ts'

export interface WorkerParts {
  readonly config: ServerConfig
  readonly memory: SharedMemory
  /** From 1. */
  readonly worker: number
  readonly clock: Clock
  readonly logger: Logger
  /** Of the logger; undefined where the main thread hears what it logs, or nobody can watch. */
  readonly tap?: EventTap | undefined
  readonly send: (message: FromWorker) => void
  /** Of calls to Redis; real time unless a test holds it. */
  readonly deadlines?: Deadlines | undefined
}

/** How often what is kept of callers is looked through for what is too old. */
const SWEEP_MS = 60_000
/** How long counters of callers are waited for when an operator asks. The main thread waits a bit longer. */
const LOOK_MS = 500

type PrepareMessage = ToWorker & { readonly type: 'prepare' }

/** A thread that serves: an engine and its sockets, on the memory that all threads share. Acts on the supervisor's messages. */
export class Worker {
  readonly #parts: WorkerParts
  readonly #ipDatabases: IpDatabases
  readonly #plans: PlanSwitch
  readonly #bundles = new Map<number, BundleInfo>()
  readonly #fleet: Fleet | undefined
  readonly #engine: Engine
  readonly #servers: ListenerServers
  readonly #vitals: Vitals
  readonly #planListeners: (() => void)[] = []
  readonly #control: ControlLink
  readonly #calls: WorkerHandlers
  readonly #digest: CallerDigest
  readonly #events: WorkerEvents | undefined
  readonly #decisionLog: WorkerDecisionLog | undefined
  readonly #tracing: Tracing | undefined
  readonly #sweep: NodeJS.Timeout | undefined
  /** One bundle after the other. */
  #preparing: Promise<void> = Promise.resolve()

  private constructor(
    parts: WorkerParts,
    code: ServerCode,
    local: EmbeddedStore,
    metricMemory: MetricMemory,
    control: ControlLink,
    fleet: Fleet | undefined,
    tracing: Tracing | undefined,
  ) {
    const { config, memory, worker, clock, logger } = parts
    this.#parts = parts
    this.#ipDatabases = new IpDatabases((path, problem) =>
      logger.error({ event: 'ip_file_refused', path, problem }, 'IP file refused; the previous data stays active'),
    )
    const owner = ownerNumber(worker)
    this.#fleet = fleet
    this.#tracing = tracing
    this.#control = control
    const events = { ...parts, eventWatch: memory.eventWatch, control: this.#control, metricMemory, wallMs: () => clock.wallMs() }
    this.#events = hasEvents(config) ? new WorkerEvents(events) : undefined
    const store = fleet?.store ?? local
    this.#plans = new PlanSwitch(new Int32Array(memory.plan))
    const identification = { trustedProxies: config.trustedProxies, ipFacts: this.#ipDatabases.facts }
    const digest = new CallerDigest(memory.hashKey)
    this.#digest = digest
    const warningMetrics = new BudgetWarningMetrics(metricMemory)
    const nameOf = (values: readonly string[]): string => digest.of(values)
    const warnings = new BudgetWarnings({ clock, logger, metrics: warningMetrics, nameOf })
    const onBudgetWarning: OnBudgetWarning = (warning) => warnings.note(warning)
    const isWatched = config.adminToken !== undefined && config.top
    const top = isWatched ? new TopCallers({ store, hashKey: memory.hashKey, nameOf }) : undefined
    this.#sweep = top && setInterval(() => top.sweep(clock.nowMs()), SWEEP_MS).unref()
    // In decision_service reservations are settled by others, or never.
    const openReservations =
      config.mode === 'reverse_proxy'
        ? new OpenReservations({ memory: memory.openReservations, worker, hashKey: memory.hashKey, clock })
        : undefined
    const engineParts = { store, clock, identification, planSwitch: this.#plans, onBudgetWarning, nameOf, callerWatch: top }
    this.#engine = new Engine({ ...engineParts, openReservations })
    const lines = new DecisionLines({ trustedProxies: config.trustedProxies, nameOf })
    const logParts = { engine: this.#engine, clock, logger, lines, metricMemory, send: parts.send }
    this.#decisionLog = config.decisionLog === undefined ? undefined : new WorkerDecisionLog(logParts)
    this.#calls = {
      top: (filter) => top!.report(filter, this.#engine.active, clock.nowMs(), clock.wallMs(), sleep(LOOK_MS, undefined, { ref: false })),
      know_overrides: () => undefined,
    }
    const revoked = new RevokedSessions(memory.revokedSessions, owner)
    const revokedAdmin = new RevokedSessions(memory.revokedAdminSessions, owner)
    this.#servers = newServers(config, code, {
      engine: this.#engine,
      clock,
      logger,
      bundle: () => this.#bundles.get(this.#plans.generation),
      storeStats: () => store.stats(),
      hasSharedStore: fleet === undefined ? undefined : () => fleet.isConnected(),
      metricMemory,
      logouts: fleet === undefined || config.debugSessionSecret === undefined ? revoked : fleet.shareLogouts(revoked),
      adminLogouts: fleet === undefined || config.adminToken === undefined ? revokedAdmin : fleet.shareAdminLogouts(revokedAdmin),
      wrongSecrets: new WrongSecrets(memory.wrongSecrets),
      wrongTokens: new WrongSecrets(memory.wrongTokens),
      shares: new ConnectionShares(memory.connections, worker),
      bodyMemory: new BodyMemory(memory.bodies, worker, { ...config, hashKey: memory.hashKey }),
      reservations: { memory: memory.reservations, worker, nameOf, sharedMarks: fleet?.marks },
      control: this.#control,
      noteDecided: this.#decisionLog?.note,
      eventStreams: this.#events?.streams,
      tracing,
      onPlanActive: (listener) => this.#planListeners.push(listener),
      places: placesOf(memory.places, worker, connectionLimits(descriptorLimit(), config)),
    })
    this.#vitals = new Vitals(metricMemory, worker)
  }

  static async start(parts: WorkerParts): Promise<Worker> {
    const { config, memory, worker } = parts
    const metricMemory = new MetricMemory(memory.metrics, worker)
    const local = new EmbeddedStore(new SharedTable(memory.table, ownerNumber(worker)), memory.hashKey)
    const [code, tracing] = await Promise.all([loadServerCode(config), openTracing(config, { ...parts, metricMemory })])
    const control = new ControlLink((call, name, ask) => parts.send({ type: 'control_call', call, name, ask }))
    if (config.redis === undefined) return new Worker(parts, code, local, metricMemory, control, undefined, tracing)
    // The client for Redis takes longer to load than all else that a worker needs.
    const { Fleet } = await import('./fleet.ts')
    return new Worker(
      parts,
      code,
      local,
      metricMemory,
      control,
      new Fleet(config.redis, { ...parts, local, metricMemory, control, reservations: memory.reservations }),
      tracing,
    )
  }

  async onMessage(message: ToWorker): Promise<void> {
    switch (message.type) {
      case 'ip_file':
        return this.#ipDatabases.use(message.file)
      case 'prepare':
        this.#preparing = this.#preparing.then(() => this.#prepare(message))
        return this.#preparing
      case 'plan_active':
        // It lets go of the plan before it: where no request comes, nothing else would.
        void this.#engine.plan
        for (const listener of this.#planListeners) listener()
        return
      case 'get_ready':
        this.#parts.send({ type: 'up' })
        await Promise.all([this.#preparing, this.#fleet?.firstUse()])
        return this.#parts.send({ type: 'ready' })
      case 'listen':
        return this.#listen(message)
      case 'fleet':
        return this.#noteFleet(message.news)
      case 'overrides':
        return this.#engine.changeOverrides(message.change)
      case 'control_answer':
        return this.#control.note(message.call, message.result)
      case 'worker_call':
        return this.#answer(message)
      case 'events':
        return this.#events?.deliver(message.events)
      case 'events_taken':
        return this.#events?.noteTaken()
      case 'decision_lines_taken':
        return this.#decisionLog?.noteTaken()
      case 'drain':
        return this.#servers.drain()
      case 'close':
        this.#vitals.stop()
        clearInterval(this.#sweep)
        await this.#servers.close()
        await this.#fleet?.close()
        await this.#tracing?.close(TRACES_CLOSE_MS)
        this.#events?.flush()
        this.#decisionLog?.flush()
        return this.#parts.send({ type: 'closed' })
    }
  }

  #noteFleet(news: FleetNews): void {
    if (news.digestKey !== undefined) this.#digest.useKey(news.digestKey)
    this.#fleet?.note(news)
  }

  async #prepare(message: PrepareMessage): Promise<void> {
    const { generation, info } = message
    let problem: string | undefined
    try {
      await this.#ipDatabases.prepareFor(await inSlices(this.#stepsOf(message)))
      for (const older of this.#bundles.keys()) if (older < this.#plans.generation) this.#bundles.delete(older)
      this.#bundles.set(generation, info)
    } catch (error) {
      problem = `it cannot be compiled: ${(error as Error).message}`
    }
    this.#parts.send({ type: 'prepared', generation, problem })
  }

  *#stepsOf({ generation, bundle, sincesMs }: PrepareMessage): Generator<void, Plan> {
    const builder = new PlanBuilder(bundle.version, pricesOf(bundle))
    for (const policy of policiesOf(bundle)) {
      builder.add(policy)
      yield
    }
    const plan = builder.build()
    yield* this.#engine.prepare(generation, plan, sincesMs)
    return plan
  }

  async #answer({ call, name, ask }: ToWorker & { type: 'worker_call' }): Promise<void> {
    const handle = this.#calls[name] as (ask: unknown) => unknown
    this.#parts.send({ type: 'worker_answer', call, result: await resultOf(() => handle(ask)) })
  }

  async #listen({ listener, target }: ToWorker & { type: 'listen' }): Promise<void> {
    const { send } = this.#parts
    try {
      send({ type: 'listening', listener, address: await this.#servers.listen(listener, target) })
    } catch (error) {
      const { message, code, syscall } = error as NodeJS.ErrnoException
      send({ type: 'cannot_listen', listener, error: { message, code, syscall } })
    }
  }
}
