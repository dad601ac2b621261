import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { GoodBundle } from '../../bundle/bundle-reader.ts'
import type { KeySetsChange } from '../../callers/key-sets/key-set-news.ts'
import type { KeySource } from '../../callers/key-sets/key-source.ts'
import { type ControlHandlers, type FleetNews, resultOf } from '../../control/control-calls.ts'
import type { EventHub } from '../../control/events/event-hub.ts'
import type { FromWorker } from '../../control/thread-messages.ts'
import { type LimitAges, limitAges } from '../../engine/active-plan.ts'
import type { IpFile } from '../../ip-data/ip-databases.ts'
import type { ListenAddress, ListenerName, OpeningPhase } from '../../listen/listeners.ts'
import type { TimedOverride } from '../../overrides/override.ts'
import type { BundleInfo } from '../../policy/plan.ts'
import type { NamedSecrets } from '../../secrets/secrets.ts'
import { CounterFamily, type Series } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { TlsMaterial } from '../../tls/tls-files.ts'
import type { DecisionLogFile } from '../decision-log/decision-log-file.ts'
import { type SharedMemory, WorkerCleanup } from '../shared-memory.ts'
import type { UsageFiles } from '../usage-log/usage-files.ts'
import { Activation, FirstStart } from './activation.ts'
import { type BoundListeners, SharedListeners } from './shared-listeners.ts'
import { CAUSE_WORDS, CAUSES, causeOf, type WorkerHost, type WorkerSlot, type WorkerSlots } from './worker-host.ts'

export interface SupervisorParts {
  readonly host: WorkerHost
  /** One for each worker; the supervisor starts and replaces their threads. */
  readonly slots: WorkerSlots
  /** These are bound but not open yet; the supervisor closes them. */
  readonly sockets: BoundListeners
  readonly memory: SharedMemory
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly nowMs: () => number
  /** All overrides that have been announced to running workers. */
  readonly overrides: () => readonly TimedOverride[]
  /** The certificates of TLS listeners, as they are now; undefined without any. */
  readonly tls?: (() => TlsMaterial) | undefined
  /** Undefined if nobody can watch events. */
  readonly events?: EventHub | undefined
  /** Undefined if EDGE_DECISION_LOG is not set. */
  readonly decisionLog?: DecisionLogFile | undefined
  /** Undefined if EDGE_USAGE_DIR is not set. */
  readonly usageFiles?: UsageFiles | undefined
  /** Waits before a retry. */
  readonly pause: (ms: number) => Promise<unknown>
}

/** Has the key sets of the active bundle. */
export interface KeySetsOwner {
  /** All that a worker must know that starts now. */
  readonly all: KeySetsChange
  /** A worker has met a key that is not in this set. Is answered by a change that is announced to all workers. */
  ask(source: KeySource): void
}

/** Has the secrets of the active bundle. */
export interface SecretsOwner {
  /** What a worker must know that starts now. */
  readonly all: NamedSecrets
}

/** Starts the workers, sends them what they need to know, and replaces those that die. It serves nothing itself. */
export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #slots: WorkerSlots
  readonly #cleanup: WorkerCleanup
  readonly #activation: Activation
  readonly #listeners: SharedListeners
  readonly #servingWorkers: Series
  readonly #deaths: CounterFamily
  readonly #ipFiles = new Map<string, IpFile>()
  /** Ages of the active bundle's limits. They are kept here, because a worker that starts later cannot know the bundles before it. */
  #ages: LimitAges | undefined
  readonly #start = new FirstStart()
  #keySets: KeySetsOwner | undefined
  #secrets: SecretsOwner | undefined
  #handlers: ControlHandlers | undefined
  #fleet: FleetNews | undefined
  #lastDeathMs = Number.NEGATIVE_INFINITY
  #isDraining = false
  #onClosed: (() => void) | undefined

  constructor(parts: SupervisorParts) {
    this.#parts = parts
    this.#cleanup = new WorkerCleanup(parts.memory, parts.metrics)
    this.#activation = new Activation(new Int32Array(parts.memory.plan), (worker) => this.#endStuck(worker))
    this.#listeners = new SharedListeners({ ...parts, workers: parts.slots.count })
    this.#servingWorkers = new CounterFamily(parts.metrics, 'edge_workers').series()
    this.#deaths = new CounterFamily(parts.metrics, 'edge_worker_deaths_total')
    for (const cause of CAUSES) this.#deaths.series(cause)
    this.#slots = parts.slots
    for (const slot of this.#slots.all) this.#startThread(slot)
  }

  loadIpFile(file: IpFile): void {
    this.#ipFiles.set(file.data.kind, file)
    this.#slots.sendAll({ type: 'ip_file', file })
  }

  /** Workers ask this owner. Must be called before there are key sets. */
  followKeySets(owner: KeySetsOwner): void {
    this.#keySets = owner
  }

  announceKeySets(change: KeySetsChange): void {
    this.#slots.sendAll({ type: 'key_sets', change })
  }

  /** Workers that start later get the secrets of this owner. Must be called before there are any. */
  followSecrets(owner: SecretsOwner): void {
    this.#secrets = owner
  }

  announceSecrets(secrets: NamedSecrets): void {
    this.#slots.sendAll({ type: 'secrets', secrets })
  }

  announceTls(material: TlsMaterial): void {
    this.#slots.sendAll({ type: 'tls', material })
  }

  /** Resolves when the bundle is active in all workers. Throws if it cannot be; the previous one then stays active in all of them. */
  async activate({ bundle, limits }: GoodBundle, info: BundleInfo): Promise<void> {
    const ages = limitAges(limits, this.#parts.nowMs(), this.#ages)
    const { living } = this.#slots
    const content = { bundle, info, sincesMs: ages.sincesMs }
    await this.#activation.begin(content, living, (message) => this.#slots.sendAll(message))
    this.#ages = ages
    this.#slots.sendAll({ type: 'plan_active' })
  }

  /** Sends the news of the fleet to all workers, and `all` to those that start later. */
  announceFleet(news: FleetNews, all: FleetNews): void {
    this.#fleet = all
    this.#slots.sendAll({ type: 'fleet', news })
  }

  /** Sets the handlers of workers' calls. Must be called before any listener opens, so that no call comes earlier. */
  answerWith(handlers: ControlHandlers): void {
    this.#handlers = handlers
  }

  /** When a worker last died, on the monotonic clock; -Infinity if none has. */
  get lastDeathMs(): number {
    return this.#lastDeathMs
  }

  /** How many workers are up, whether or not they accept requests yet. */
  get livingCount(): number {
    return this.#slots.all.filter(({ state }) => state === 'up' || state === 'ready').length
  }

  /** Resolves when the first workers are up; until then no bundle can become active. Rejects if one dies before. */
  up(): Promise<void> {
    return this.#start.up
  }

  /** Rejects if workers die repeatedly before everything is open. */
  failed(): Promise<never> {
    return this.#start.failed
  }

  /** Resolves when all workers accept connections on every listener of this phase. Returns the addresses. */
  async open(phase: OpeningPhase): Promise<Map<ListenerName, ListenAddress>> {
    const addresses = await this.#listeners.open(phase, this.#slots.all)
    if (phase === 'ready') this.#start.noteOpen()
    return addresses
  }

  /** From now on, each response is the last on its connection. */
  drain(): void {
    this.#isDraining = true
    this.#slots.sendAll({ type: 'drain' })
  }

  /** Resolves when open requests have been answered, or when the time is over. */
  async close(graceMs: number): Promise<void> {
    this.#listeners.close()
    const closed = new Promise<void>((resolve) => {
      this.#onClosed = resolve
    })
    this.#slots.sendAll({ type: 'close' })
    for (const slot of this.#slots.all) if (slot.link === undefined) slot.state = 'closed'
    this.#noteClosed()
    const timer = new AbortController()
    await Promise.race([closed, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => {})])
    timer.abort()
    for (const slot of this.#slots.all) {
      slot.state = 'closed'
      slot.link?.terminate()
    }
  }

  /** Starts a thread and sends it everything that the other workers know. */
  #startThread(slot: WorkerSlot): void {
    const { host, memory, nowMs, overrides, tls } = this.#parts
    slot.state = 'starting'
    slot.startedAtMs = nowMs()
    slot.link = host.startWorker(slot.worker, memory, {
      onMessage: (message) => this.#onMessage(slot, message),
      onExit: (error) => this.#onExit(slot, error),
    })
    if (tls !== undefined) slot.link.send({ type: 'tls', material: tls() })
    for (const file of this.#ipFiles.values()) slot.link.send({ type: 'ip_file', file })
    const keySets = this.#keySets?.all
    if (keySets !== undefined && keySets.changed.length > 0) slot.link.send({ type: 'key_sets', change: keySets })
    const secrets = this.#secrets?.all
    if (secrets !== undefined && secrets.size > 0) slot.link.send({ type: 'secrets', secrets })
    const put = overrides()
    if (put.length > 0) slot.link.send({ type: 'overrides', change: { put, gone: [] } })
    if (this.#fleet !== undefined) slot.link.send({ type: 'fleet', news: this.#fleet })
    for (const message of this.#activation.join(slot.worker)) slot.link.send(message)
    if (this.#isDraining) slot.link.send({ type: 'drain' })
    slot.link.send({ type: 'get_ready' })
  }

  #onMessage(slot: WorkerSlot, message: FromWorker): void {
    if (slot.state === 'unfit') return
    switch (message.type) {
      case 'prepared':
        if (!this.#activation.note(slot.worker, message.generation, message.problem)) this.#endUnfit(slot, message.problem)
        return
      case 'up':
        slot.state = 'up'
        if (this.#slots.all.every(({ state }) => state !== 'starting')) this.#start.noteUp()
        return this.#listeners.join('early', slot)
      case 'ready':
        slot.state = 'ready'
        return this.#listeners.join('ready', slot)
      case 'listening':
        return this.#onListening(slot, message.listener, message.address)
      case 'cannot_listen':
        return this.#listeners.noteFailure(message.listener, slot, message.error)
      case 'control_call':
        return void this.#answer(slot, message)
      case 'worker_answer':
        return this.#slots.noteAnswer(slot.worker, message.call, message.result)
      case 'events':
        return this.#parts.events?.publishFrom(slot.worker, message.events)
      case 'events_taken':
        return this.#parts.events?.noteTaken(slot.worker)
      case 'decision_lines':
        return this.#parts.decisionLog?.write(slot.worker, message.lines, message.dropped)
      case 'usage_lines':
        return this.#parts.usageFiles?.write(slot.worker, message.hours, message.lost)
      case 'ask_key_set':
        return this.#keySets?.ask(message.source)
      case 'closed':
        slot.state = 'closed'
        return this.#noteClosed()
    }
  }

  async #answer({ link }: WorkerSlot, { call, name, ask }: FromWorker & { type: 'control_call' }): Promise<void> {
    const handle = this.#handlers![name] as (ask: unknown) => unknown
    link?.send({ type: 'control_answer', call, result: await resultOf(() => handle(ask)) })
  }

  #onListening(slot: WorkerSlot, name: ListenerName, address: ListenAddress): void {
    const hasAll = this.#listeners.noteListening(name, slot.worker, address)
    this.#countServing()
    if (!slot.isBeingReplaced || !hasAll) return
    slot.isBeingReplaced = false
    this.#parts.logger.info({ event: 'worker_replaced', worker: slot.worker }, `worker ${slot.worker} serves again`)
  }

  #onExit(slot: WorkerSlot, error: Error | undefined): void {
    const isExpected = slot.state === 'closed'
    slot.link = undefined
    this.#listeners.leave(slot.worker)
    this.#slots.leaveCalls(slot.worker)
    this.#parts.events?.leave(slot.worker)
    this.#parts.usageFiles?.loseWaiting(slot.worker)
    const freedLocks = this.#cleanup.cleanUp(slot.worker)
    this.#activation.leave(slot.worker)
    if (isExpected) return
    const pauseMs = this.#noteDeath(slot, error, freedLocks)
    if (this.#onClosed !== undefined) {
      slot.state = 'closed'
      return this.#noteClosed()
    }
    if (this.#start.noteDeath(error ?? new Error(`worker ${slot.worker} ended while it started`))) void this.#replace(slot, pauseMs)
  }

  /** Returns how long to wait before the replacement is started. */
  #noteDeath(slot: WorkerSlot, error: Error | undefined, freedLocks: number): number {
    const { logger, nowMs } = this.#parts
    slot.state = 'dead'
    slot.isBeingReplaced = true
    this.#countServing()
    const cause = causeOf(error)
    this.#deaths.series(cause).count++
    this.#lastDeathMs = nowMs()
    const livedMs = Math.round(this.#lastDeathMs - slot.startedAtMs)
    const what = { event: 'worker_died', worker: slot.worker, cause, lived_ms: livedMs, freed_locks: freedLocks, err: error }
    logger.error(what, CAUSE_WORDS[cause])
    return slot.shortLives.note(livedMs)
  }

  async #replace(slot: WorkerSlot, pauseMs: number): Promise<void> {
    await this.#parts.pause(pauseMs)
    if (this.#onClosed === undefined) this.#startThread(slot)
  }

  /** Ends a worker that lacks the active plan; if it served, it would answer every request with a 500. */
  #endUnfit(slot: WorkerSlot, problem: string | undefined): void {
    const what = { event: 'worker_unfit', worker: slot.worker, problem }
    this.#parts.logger.error(what, `worker ${slot.worker} could not load the active bundle and is terminated`)
    slot.state = 'unfit'
    slot.link?.terminate()
  }

  #endStuck(worker: number): void {
    this.#parts.logger.error({ event: 'worker_stuck', worker }, `worker ${worker} does not respond and is terminated`)
    this.#slots.of(worker).link?.terminate()
  }

  #countServing(): void {
    this.#servingWorkers.count = this.#listeners.servingCount
  }

  #noteClosed(): void {
    if (this.#slots.all.every(({ state }) => state === 'closed')) this.#onClosed?.()
  }
}
