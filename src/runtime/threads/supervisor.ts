import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { GoodBundle } from '../../bundle/bundle-reader.ts'
import { type LimitAges, limitAges } from '../../engine/limit-ages.ts'
import type { IpFile } from '../../ip-data/ip-files.ts'
import type { BundleInfo } from '../../policy/bundle-info.ts'
import { CounterFamily, type Series } from '../../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { SharedMemory } from '../shared-memory.ts'
import { WorkerCleanup } from '../worker-cleanup.ts'
import { Activation } from './activation.ts'
import { FirstStart } from './first-start.ts'
import type { FromWorker, ListenError, ListenerName, ToWorker } from './messages.ts'
import { SharedListeners } from './shared-listeners.ts'
import { CAUSE_WORDS, CAUSES, causeOf, ShortLives } from './worker-death.ts'
import type { SharedPort, WorkerHost, WorkerLink } from './worker-host.ts'

export interface SupervisorParts {
  readonly host: WorkerHost
  readonly workers: number
  readonly memory: SharedMemory
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly nowMs: () => number
  /** Before something is tried again. */
  readonly pause: (ms: number) => Promise<unknown>
}

/** One worker's place, which one thread takes after another. */
interface Seat {
  readonly worker: number
  readonly shortLives: ShortLives
  link: WorkerLink | undefined
  startedAtMs: number
  /** `unfit`: cannot serve, and is being ended. */
  state: 'starting' | 'up' | 'ready' | 'unfit' | 'dead' | 'closed'
  /** Its thread takes the place of one that died, and does not serve yet. */
  isBeingReplaced: boolean
}

/** What could not be had yet is asked for again after this. */
const RETRY_MS = 5000

/** Starts the workers, tells them what there is to know, and replaces those that die. Serves nothing itself. */
export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #seats: readonly Seat[]
  readonly #cleanup: WorkerCleanup
  readonly #activation: Activation
  readonly #listeners: SharedListeners
  readonly #servingWorkers: Series
  readonly #deaths: CounterFamily
  readonly #ipFiles = new Map<string, IpFile>()
  /** Of the bundle that holds. A worker that comes later cannot know what was before it. */
  #ages: LimitAges | undefined
  readonly #start = new FirstStart()
  #isDraining = false
  #onClosed: (() => void) | undefined

  constructor(parts: SupervisorParts) {
    this.#parts = parts
    this.#cleanup = new WorkerCleanup(parts.memory, parts.metrics)
    this.#activation = new Activation(new Int32Array(parts.memory.plan), (worker) => this.#endStuck(worker))
    this.#listeners = new SharedListeners(parts.workers)
    this.#servingWorkers = new CounterFamily(parts.metrics, 'edge_workers').series()
    this.#deaths = new CounterFamily(parts.metrics, 'edge_worker_deaths_total')
    for (const cause of CAUSES) this.#deaths.series(cause)
    this.#seats = Array.from({ length: parts.workers }, (_, i) => newSeat(i + 1))
    for (const seat of this.#seats) this.#fill(seat)
  }

  loadIpFile(file: IpFile): void {
    this.#ipFiles.set(file.data.kind, file)
    this.#tellAll({ type: 'ip_file', file })
  }

  /** Done when the bundle holds in all workers. Throws when it cannot, and the one before still holds in all. */
  async activate({ bundle, limits }: GoodBundle, info: BundleInfo): Promise<void> {
    const ages = limitAges(limits, this.#parts.nowMs(), this.#ages)
    const living = this.#seats.filter(({ link }) => link !== undefined).map(({ worker }) => worker)
    const content = { bundle, info, sincesMs: ages.sincesMs }
    await this.#activation.begin(content, living, (message) => this.#tellAll(message))
    this.#ages = ages
  }

  /** Done when the first workers are up; until then nothing can become active. Rejects when one dies before. */
  up(): Promise<void> {
    return this.#start.up
  }

  /** Rejects when workers die again and again before the main port is open. */
  failed(): Promise<never> {
    return this.#start.failed
  }

  /** Done when all workers accept connections on it; tells its number. */
  listen(name: ListenerName, port: SharedPort): Promise<number> {
    const opened = this.#listeners.open(name, port)
    for (const seat of this.#seats) if (canListen(seat, name)) void this.#letListen(seat, name)
    if (name === 'main')
      void opened.then(
        () => this.#start.noteOpen(),
        () => {},
      ) // whoever opens it hears of it
    return opened
  }

  /** Every answer is the last on its connection from now on. */
  drain(): void {
    this.#isDraining = true
    this.#tellAll({ type: 'drain' })
  }

  /** Done when open requests are answered, or the time is over. */
  async close(graceMs: number): Promise<void> {
    this.#listeners.close()
    const closed = new Promise<void>((resolve) => {
      this.#onClosed = resolve
    })
    this.#tellAll({ type: 'close' })
    for (const seat of this.#seats) if (seat.link === undefined) seat.state = 'closed'
    this.#noteClosed()
    const timer = new AbortController()
    await Promise.race([closed, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => {})])
    timer.abort()
    for (const seat of this.#seats) {
      seat.state = 'closed'
      seat.link?.terminate()
    }
  }

  #tellAll(message: ToWorker): void {
    for (const { link } of this.#seats) link?.tell(message)
  }

  /** Starts a thread and tells it all that the others know. */
  #fill(seat: Seat): void {
    const { host, memory, nowMs } = this.#parts
    seat.state = 'starting'
    seat.startedAtMs = nowMs()
    seat.link = host.startWorker(seat.worker, memory, {
      onMessage: (message) => this.#hear(seat, message),
      onExit: (error) => this.#onExit(seat, error),
    })
    for (const file of this.#ipFiles.values()) seat.link.tell({ type: 'ip_file', file })
    for (const message of this.#activation.join(seat.worker)) seat.link.tell(message)
    if (this.#isDraining) seat.link.tell({ type: 'drain' })
    seat.link.tell({ type: 'get_ready' })
  }

  #hear(seat: Seat, message: FromWorker): void {
    if (seat.state === 'unfit') return
    switch (message.type) {
      case 'prepared':
        if (!this.#activation.note(seat.worker, message.generation, message.problem)) this.#endUnfit(seat, message.problem)
        return
      case 'up':
        return this.#onUp(seat)
      case 'ready':
        seat.state = 'ready'
        if (this.#listeners.names.includes('main')) void this.#letListen(seat, 'main')
        return
      case 'listening':
        return this.#onListening(seat, message.listener, message.port)
      case 'cannot_listen':
        return this.#onCannotListen(seat, message.listener, message.error)
      case 'closed':
        seat.state = 'closed'
        return this.#noteClosed()
    }
  }

  #onUp(seat: Seat): void {
    seat.state = 'up'
    if (this.#seats.every(({ state }) => state !== 'starting')) this.#start.noteUp()
    if (this.#listeners.names.includes('admin')) void this.#letListen(seat, 'admin')
  }

  /** A share of a port is for a worker that is sure to take it: whoever dies before that would keep it open for ever. */
  async #letListen(seat: Seat, name: ListenerName): Promise<void> {
    const { link } = seat
    try {
      const message = await this.#listeners.share(name)
      if (link !== undefined && seat.link === link) link.tell(message)
      else this.#listeners.giveBack(message)
    } catch (error) {
      if (this.#listeners.failOpening(name, error as Error)) return
      if (this.#onClosed !== undefined || seat.link !== link) return
      this.#parts.logger.error({ event: 'worker_not_replaced', worker: seat.worker, err: error }, 'a worker could not be replaced yet')
      await this.#parts.pause(RETRY_MS)
      if (seat.link === link) await this.#letListen(seat, name)
    }
  }

  #onListening(seat: Seat, name: ListenerName, port: number): void {
    this.#listeners.noteListening(name, seat.worker, port)
    this.#countServing()
    if (!seat.isBeingReplaced || !this.#listeners.hasAll(seat.worker)) return
    seat.isBeingReplaced = false
    this.#parts.logger.info({ event: 'worker_replaced', worker: seat.worker }, `worker ${seat.worker} serves again`)
  }

  #onCannotListen(seat: Seat, name: ListenerName, error: ListenError): void {
    if (this.#listeners.failOpening(name, Object.assign(new Error(error.message), error))) return
    this.#parts.logger.error({ event: 'worker_cannot_listen', worker: seat.worker, error }, `worker ${seat.worker} cannot listen`)
    seat.link?.terminate()
  }

  #onExit(seat: Seat, error: Error | undefined): void {
    const isExpected = seat.state === 'closed'
    seat.link = undefined
    this.#listeners.leave(seat.worker)
    const freedLocks = this.#cleanup.cleanUp(seat.worker)
    this.#activation.leave(seat.worker)
    if (isExpected) return
    const pauseMs = this.#noteDeath(seat, error, freedLocks)
    if (this.#onClosed !== undefined) {
      seat.state = 'closed'
      return this.#noteClosed()
    }
    if (this.#start.noteDeath(error ?? new Error(`worker ${seat.worker} ended while it started`))) void this.#replace(seat, pauseMs)
  }

  /** Returns how long to wait before another one is started. */
  #noteDeath(seat: Seat, error: Error | undefined, freedLocks: number): number {
    const { logger, nowMs } = this.#parts
    seat.state = 'dead'
    seat.isBeingReplaced = true
    this.#countServing()
    const cause = causeOf(error)
    this.#deaths.series(cause).count++
    const livedMs = Math.round(nowMs() - seat.startedAtMs)
    const what = { event: 'worker_died', worker: seat.worker, cause, lived_ms: livedMs, freed_locks: freedLocks, err: error }
    logger.error(what, CAUSE_WORDS[cause])
    return seat.shortLives.note(livedMs)
  }

  async #replace(seat: Seat, pauseMs: number): Promise<void> {
    await this.#parts.pause(pauseMs)
    if (this.#onClosed === undefined) this.#fill(seat)
  }

  /** If it served, it would answer 500 to everything: it lacks the active plan. */
  #endUnfit(seat: Seat, problem: string | undefined): void {
    const what = { event: 'worker_unfit', worker: seat.worker, problem }
    this.#parts.logger.error(what, `worker ${seat.worker} could not load the active bundle and is ended`)
    seat.state = 'unfit'
    seat.link?.terminate()
  }

  #endStuck(worker: number): void {
    this.#parts.logger.error({ event: 'worker_stuck', worker }, `worker ${worker} does not answer and is ended`)
    this.#seats[worker - 1]!.link?.terminate()
  }

  #countServing(): void {
    this.#servingWorkers.count = this.#listeners.count('main')
  }

  #noteClosed(): void {
    if (this.#seats.every(({ state }) => state === 'closed')) this.#onClosed?.()
  }
}

function newSeat(worker: number): Seat {
  return { worker, shortLives: new ShortLives(), link: undefined, startedAtMs: 0, state: 'starting', isBeingReplaced: false }
}

/** What operators look at is there before the service is ready, while Redis is still being connected to, say. */
function canListen({ state }: Seat, name: ListenerName): boolean {
  return state === 'ready' || (state === 'up' && name === 'admin')
}
