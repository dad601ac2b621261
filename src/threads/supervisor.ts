import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type LimitAges, limitAges } from '../engine/limit-ages.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import { compileBundle } from '../policy/compile.ts'
import type { Bundle } from '../policy/schema.ts'
import { CounterFamily, type Series } from '../server/metrics/counter-family.ts'
import type { MetricMemory } from '../server/metrics/metric-memory.ts'
import type { IpFile } from '../source/ip-files.ts'
import { Activation } from './activation.ts'
import type { SharedPort, WorkerHost, WorkerLink } from './host.ts'
import type { FromWorker, ListenError, ToWorker } from './messages.ts'
import type { SharedMemory } from './shared-memory.ts'
import { Undertaker } from './undertaker.ts'

export interface SupervisorParts {
  readonly host: WorkerHost
  readonly workers: number
  readonly memory: SharedMemory
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly nowMs: () => number
}

export interface Ports {
  readonly main: SharedPort
  readonly admin: SharedPort | undefined
}

export interface PortNumbers {
  readonly port: number
  readonly adminPort: number | undefined
}

/** One worker's place, which one thread takes after another. */
interface Seat {
  readonly worker: number
  link: WorkerLink | undefined
  startedAtMs: number
  state: 'starting' | 'listening' | 'dead' | 'closed'
  /** Lives in a row that were too short to be worth replacing at once. */
  shortLives: number
}

const SHORT_LIFE_MS = 1000
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/** Starts the workers, tells them what there is to know, and replaces those that die. Serves nothing itself. */
export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #seats: readonly Seat[]
  readonly #undertaker: Undertaker
  readonly #activation: Activation
  readonly #listeningWorkers: Series
  readonly #deaths: CounterFamily
  readonly #ipFiles = new Map<string, IpFile>()
  /** Of the bundle that holds. A worker that comes later cannot know what was before it. */
  #ages: LimitAges | undefined
  #ports: Ports | undefined
  /** Until all of the first workers listen, as they must. */
  #start: Start | undefined = newStart()
  #isDraining = false
  #onClosed: (() => void) | undefined

  constructor(parts: SupervisorParts) {
    this.#parts = parts
    this.#undertaker = new Undertaker(parts.memory, parts.metrics)
    this.#activation = new Activation(new Int32Array(parts.memory.plan), (worker) => this.#endStuck(worker))
    this.#listeningWorkers = new CounterFamily(parts.metrics, 'edge_workers').series()
    this.#deaths = new CounterFamily(parts.metrics, 'edge_worker_deaths_total')
    for (const cause of ['exception', 'out_of_memory', 'exit']) this.#deaths.series(cause)
    this.#seats = Array.from({ length: parts.workers }, (_, i) => ({
      worker: i + 1,
      link: undefined,
      startedAtMs: 0,
      state: 'starting',
      shortLives: 0,
    }))
    for (const seat of this.#seats) this.#fill(seat)
  }

  loadIpFile(file: IpFile): void {
    this.#ipFiles.set(file.kind, file)
    this.#tellAll({ type: 'ip_file', file })
  }

  /** Done when the bundle holds in all workers. Throws when it cannot, and the one before still holds in all. */
  async activate(bundle: Bundle, info: BundleInfo): Promise<void> {
    const ages = limitAges(compileBundle(bundle), this.#parts.nowMs(), this.#ages)
    const living = this.#seats.filter(({ link }) => link !== undefined).map(({ worker }) => worker)
    await this.#activation.begin({ bundle, info, sincesMs: ages.sincesMs }, living, (message) => this.#tellAll(message))
    this.#ages = ages
  }

  /** Done when all workers accept connections. */
  listen(ports: Ports): Promise<PortNumbers> {
    this.#ports = ports
    const start = this.#start!
    for (const { link } of this.#seats) this.#shares().then((message) => link?.tell(message), start.reject)
    return start.listening
  }

  /** Every answer is the last on its connection from now on. */
  drain(): void {
    this.#isDraining = true
    this.#tellAll({ type: 'drain' })
  }

  /** Done when open requests are answered, or the time is over. */
  async close(graceMs: number): Promise<void> {
    this.#ports?.main.close()
    this.#ports?.admin?.close()
    const closed = new Promise<void>((resolve) => {
      this.#onClosed = resolve
    })
    this.#tellAll({ type: 'close' })
    for (const seat of this.#seats) if (seat.link === undefined) seat.state = 'closed'
    this.#noteClosed()
    const timer = new AbortController()
    await Promise.race([closed, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => {})])
    timer.abort()
    for (const { link } of this.#seats) link?.terminate()
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
  }

  async #shares(): Promise<ToWorker> {
    const { main, admin } = this.#ports!
    return { type: 'listen', main: await main.share(), admin: await admin?.share() }
  }

  #hear(seat: Seat, message: FromWorker): void {
    switch (message.type) {
      case 'prepared':
        return this.#activation.note(seat.worker, message.generation, message.problem)
      case 'listening':
        return this.#onListening(seat, message)
      case 'cannot_listen':
        return this.#onCannotListen(seat, message.error)
      case 'closed':
        seat.state = 'closed'
        return this.#noteClosed()
    }
  }

  #onListening(seat: Seat, { port, adminPort }: PortNumbers): void {
    seat.state = 'listening'
    this.#countListening()
    if (this.#start === undefined) {
      this.#parts.logger.info({ event: 'worker_replaced', worker: seat.worker }, `worker ${seat.worker} serves again`)
    } else if (this.#seats.every(({ state }) => state === 'listening')) {
      this.#start.resolve({ port, adminPort })
      this.#start = undefined
    }
  }

  #onCannotListen(seat: Seat, error: ListenError): void {
    if (this.#start !== undefined) return this.#start.reject(Object.assign(new Error(error.message), error))
    this.#parts.logger.error({ event: 'worker_cannot_listen', worker: seat.worker, error }, `worker ${seat.worker} cannot listen`)
    seat.link?.terminate()
  }

  #onExit(seat: Seat, error: Error | undefined): void {
    const { logger, nowMs } = this.#parts
    seat.link = undefined
    const freedLocks = this.#undertaker.bury(seat.worker)
    this.#activation.leave(seat.worker)
    if (this.#onClosed !== undefined) {
      seat.state = 'closed'
      return this.#noteClosed()
    }
    seat.state = 'dead'
    this.#countListening()
    const cause = causeOf(error)
    this.#deaths.series(cause).count++
    const livedMs = Math.round(nowMs() - seat.startedAtMs)
    logger.error(
      { event: 'worker_died', worker: seat.worker, cause, lived_ms: livedMs, freed_locks: freedLocks, err: error },
      MESSAGES[cause],
    )
    if (this.#start !== undefined) return this.#start.reject(error ?? new Error(`worker ${seat.worker} ended while it started`))
    seat.shortLives = livedMs < SHORT_LIFE_MS ? seat.shortLives + 1 : 0
    const pauseMs = seat.shortLives === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (seat.shortLives - 1), MAX_PAUSE_MS)
    void this.#replace(seat, pauseMs)
  }

  async #replace(seat: Seat, pauseMs: number): Promise<void> {
    await sleep(pauseMs)
    try {
      const listen = await this.#shares()
      if (this.#onClosed !== undefined) return
      this.#fill(seat)
      seat.link!.tell(listen)
    } catch (error) {
      if (this.#onClosed !== undefined) return
      this.#parts.logger.error({ event: 'worker_not_replaced', worker: seat.worker, err: error }, 'a worker could not be replaced yet')
      void this.#replace(seat, MAX_PAUSE_MS)
    }
  }

  #endStuck(worker: number): void {
    this.#parts.logger.error({ event: 'worker_stuck', worker }, `worker ${worker} does not answer and is ended`)
    this.#seats[worker - 1]!.link?.terminate()
  }

  #countListening(): void {
    this.#listeningWorkers.count = this.#seats.filter(({ state }) => state === 'listening').length
  }

  #noteClosed(): void {
    if (this.#seats.every(({ state }) => state === 'closed')) this.#onClosed?.()
  }
}

interface Start {
  readonly listening: Promise<PortNumbers>
  resolve(ports: PortNumbers): void
  reject(error: Error): void
}

function newStart(): Start {
  let settle!: Pick<Start, 'resolve' | 'reject'>
  const listening = new Promise<PortNumbers>((resolve, reject) => {
    settle = { resolve, reject }
  })
  listening.catch(() => {}) // a worker may die before anybody waits
  return { listening, ...settle }
}

type Cause = 'exception' | 'out_of_memory' | 'exit'

const MESSAGES: Readonly<Record<Cause, string>> = {
  exception: 'a worker broke and is replaced; the others go on',
  out_of_memory: 'a worker ran out of memory and is replaced; the others go on',
  exit: 'a worker ended and is replaced; the others go on',
}

function causeOf(error: Error | undefined): Cause {
  if (error === undefined) return 'exit'
  return (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out_of_memory' : 'exception'
}
