import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import type { FleetNews } from '../control/control-calls.ts'
import type { ControlLink } from '../control/control-link.ts'
import type { Engine } from '../engine/engine.ts'
import type { ReservationName } from '../reservations/reservation-content.ts'
import { issuedWatch, type ReservationMemory } from '../reservations/reservation-numbers.ts'
import type { MarkOutcome, SettledMarks } from '../reservations/reservations.ts'
import type { Logouts } from '../sessions/session-cookies.ts'
import { ControlScript, newEpoch, OverrideMoments } from '../store/redis/control-script.ts'
import { Corrections } from '../store/redis/corrections.ts'
import { type AnnouncedReset, resetEntry } from '../store/redis/fleet-resets.ts'
import { FleetStore } from '../store/redis/fleet-store.ts'
import { Leases } from '../store/redis/leases/leases.ts'
import { type Deadlines, LinkError } from '../store/redis/link/call.ts'
import type { RedisAddress } from '../store/redis/link/redis-address.ts'
import { RedisLink } from '../store/redis/link/redis-link.ts'
import { OpenRecords } from '../store/redis/open-records.ts'
import { counterProbe, counterScripts, ReservationScript } from '../store/redis/scripts.ts'
import { SharedCounters } from '../store/redis/shared-counters.ts'
import type { EmbeddedStore } from '../store/table/embedded-store.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { RedisMetrics } from '../telemetry/metrics/redis-metrics.ts'
import type { Clock } from '../time/clock.ts'
import { SharedLogouts, type SharedLogoutsParts } from './shared-logouts.ts'

export interface FleetParts {
  readonly config: ServerConfig
  readonly worker: number
  readonly local: EmbeddedStore
  readonly metricMemory: MetricMemory
  readonly control: ControlLink
  readonly reservations: ReservationMemory
  readonly clock: Clock
  readonly logger: Logger
  /** Deadlines of calls to Redis; real time unless a test controls it. */
  readonly deadlines?: Deadlines | undefined
}

/** How long a starting worker waits for Redis. */
const FIRST_USE_MS = 2000

/**
 * How long this connection may be without replies before it is probed. The main thread asks Redis all the time and has all workers probe it when it falls
 * silent, so this is for what concerns one connection only and the kernel does not notice.
 */
const IDLE_MS = 60_000

/** How long settlements that could not be sent wait for the next attempt. */
const RESEND_MS = 500

/** Interval at which an instance corrects its own counts by what other instances have settled. */
const CORRECTION_MS = 1000

/** A worker's part in a fleet: its connection to Redis, the store on it, and their metrics and log lines. */
export class Fleet {
  readonly store: FleetStore
  /** Marks of settled reservations, shared by all instances. */
  readonly marks: SharedMarks
  readonly #link: RedisLink
  readonly #shared: SharedCounters
  readonly #overrides = new OverrideMoments()
  readonly #leases: Leases | undefined
  readonly #metrics: RedisMetrics
  readonly #prefix: string
  readonly #failureMode: ServerConfig['redisFailureMode']
  readonly #clock: Clock
  readonly #logger: Logger
  #sending: NodeJS.Timeout | undefined
  readonly #corrections: Corrections
  /** Runs in one worker, and only once reservations were issued. */
  #correcting: NodeJS.Timeout | undefined
  readonly #logouts: SharedLogouts[] = []
  readonly #scripts = counterScripts()
  #records: OpenRecords | undefined
  /** One worker is enough for what changes memory of all workers: the first one. */
  readonly #isFirst: boolean
  /** When each open circuit opened, by node, on the monotonic clock. */
  readonly #openSinceMs = new Map<string, number>()

  constructor(address: RedisAddress, { config, worker, local, metricMemory, control, reservations, clock, logger, deadlines }: FleetParts) {
    const { redisPrefix: prefix, redisTimeoutMs: timeoutMs, redisFailureMode: failureMode } = config
    const metrics = new RedisMetrics(metricMemory)
    const scripts = this.#scripts
    this.#metrics = metrics
    this.#prefix = prefix
    this.#failureMode = failureMode
    this.#clock = clock
    this.#isFirst = worker === 1
    // Each worker has its own connection, so its log lines name the worker.
    this.#logger = logger.child({ worker })
    this.#link = new RedisLink({
      address,
      timeoutMs,
      prefix,
      probe: (key) => counterProbe(scripts.buckets, key),
      idleMs: IDLE_MS,
      deadlines,
      listener: {
        onNode: (node) => metrics.addNode(node),
        onRoundTrip: (seconds) => metrics.countRoundTrip(seconds),
        onError: (kind) => metrics.countError(kind),
        onCircuit: (node, isOpen, reason) => this.#noteCircuit(node, isOpen, reason),
      },
    })
    this.#shared = new SharedCounters(
      this.#link,
      scripts,
      { prefix, maxSlackMs: timeoutMs, overridesKnownAt: (nowMs) => this.#overrides.knownAt(nowMs) },
      { onUnknownOutcome: (what) => metrics.countDoubt(what), onUnsent: () => this.#sendLater() },
    )
    this.#leases = config.redisMode === 'leased' ? this.#newLeases(local, config.redisLeaseMs) : undefined
    const listener = { onDecided: metrics.countAnswer.bind(metrics) }
    const reservationScript = new ReservationScript(this.#link)
    const corrections = new Corrections({
      script: reservationScript,
      prefix,
      instance: reservations.instance,
      local,
      isExpected: issuedWatch(reservations),
      nowMs: () => clock.nowMs(),
      wallMs: () => clock.wallMs(),
      listener: { onUnknownOutcome: (what) => metrics.countDoubt(what) },
    })
    this.marks = new SharedMarks(reservationScript, prefix, () => clock.wallMs())
    const controlScript = new ControlScript(this.#link, prefix)
    const announce = async (resets: readonly AnnouncedReset[]): Promise<void> => {
      // The main thread writes them back if Redis loses them before anybody has read them.
      await control.ask('note_resets', resets)
      await controlScript.add(newEpoch(), 'resets', resets.map(resetEntry))
    }
    this.store = new FleetStore({ shared: this.#shared, local, leases: this.#leases, corrections, announce, failureMode, clock, listener })
    this.#corrections = corrections
  }

  /** Resolves when Redis can be used for the first time, or after FIRST_USE_MS. */
  firstUse(): Promise<void> {
    return this.#link.firstUse(FIRST_USE_MS)
  }

  /** Notes which changes of overrides this instance knows, the resets that were announced, and whether there is anything to correct. */
  note({ changes, resets, hasReservations }: FleetNews): void {
    this.#overrides.use(changes)
    this.store.noteResets(resets)
    if (hasReservations && this.#isFirst) this.#correcting ??= setInterval(() => void this.#corrections.apply(), CORRECTION_MS).unref()
  }

  /** Has other instances give back what requests in flight here have reserved, should this process die. */
  reportOpen(engine: Engine, worker: number): void {
    const owner = `${hostname()}.${process.pid}.${worker}.${randomBytes(4).toString('hex')}`
    const source = engine.watchUnsettled(() => records.start())
    const records = new OpenRecords({ link: this.#link, scripts: this.#scripts, prefix: this.#prefix, owner, clock: this.#clock, source })
    this.#records = records
  }

  /** Finds out whether Redis still answers this worker. */
  probe(): void {
    this.#link.probe()
  }

  /** Whether no thread of this process has an open circuit. */
  isConnected(): boolean {
    return !this.#metrics.hasOpenCircuits()
  }

  /** Shares logouts with all instances. `own` holds those that this process knows; the main thread fetches what others announce. */
  shareLogouts(kind: SharedLogoutsParts['kind'], own: Logouts): Logouts {
    const parts = { link: this.#link, prefix: this.#prefix, own, wallMs: () => this.#clock.wallMs(), logger: this.#logger }
    const shared = new SharedLogouts({ kind, ...parts })
    this.#logouts.push(shared)
    return shared
  }

  /** Gives back unused leased tokens, and waits for calls that are under way, before the connection is closed. */
  async close(underWay: Promise<void>): Promise<void> {
    clearTimeout(this.#sending)
    clearInterval(this.#correcting)
    this.#records?.stop()
    for (const logouts of this.#logouts) logouts.stop()
    await Promise.all([underWay, this.#leases?.close()])
    await this.#link.close()
  }

  #sendLater(): void {
    this.#sending ??= setTimeout(() => {
      this.#sending = undefined
      void this.#shared.sendUnsent()
    }, RESEND_MS).unref()
  }

  #newLeases(local: EmbeddedStore, leaseMs: number): Leases {
    const metrics = this.#metrics
    const leases = new Leases({
      shared: this.#shared,
      local,
      leaseMs,
      clock: this.#clock,
      listener: {
        onHeld: (change) => {
          metrics.leases.count += change
        },
        onTokens: (what, tokens) => metrics.countTokens(what, tokens),
      },
    })
    leases.start()
    return leases
  }

  #noteCircuit(node: string, isOpen: boolean, reason: string): void {
    this.#metrics.noteCircuit(node, isOpen)
    if (isOpen) {
      this.#openSinceMs.set(node, this.#clock.nowMs())
      const what = { event: 'redis_unavailable', node, reason, failure_mode: this.#failureMode }
      this.#logger.error(what, `Redis is unavailable; until it is back, ${MEANWHILE[this.#failureMode]}`)
      return
    }
    const away_ms = Math.round(this.#clock.nowMs() - (this.#openSinceMs.get(node) ?? this.#clock.nowMs()))
    this.#logger.info({ event: 'redis_available', node, reason, away_ms }, `the circuit to ${node} is closed: ${reason}`)
    void this.#shared.sendUnsent()
  }
}

/** What each failure mode does. */
const MEANWHILE: Readonly<Record<ServerConfig['redisFailureMode'], string>> = {
  local: 'this instance grants the whole limit by itself',
  open: 'this instance limits nothing',
  closed: 'this instance answers 503 to what it would have to count',
}

/** Longer than the two hours in which a reservation can be settled, for clocks that differ a little. It is extended if the issuer's clock is ahead of ours. */
const KEPT_MS = 130 * 60 * 1000

/** Settlement marks in Redis, shared by all instances: one bitmap for each worker and hour. */
export class SharedMarks implements SettledMarks {
  readonly #script: ReservationScript
  readonly #prefix: string
  readonly #wallMs: () => number

  constructor(script: ReservationScript, prefix: string, wallMs: () => number) {
    this.#script = script
    this.#prefix = prefix
    this.#wallMs = wallMs
  }

  async mark({ instance, run, worker, hour, number }: ReservationName, issuedMs: number): Promise<MarkOutcome> {
    const key = `${this.#prefix}settled:${instance}:${run}:${worker}:${hour}`
    const keptMs = KEPT_MS + Math.max(0, Math.ceil(issuedMs - this.#wallMs()))
    try {
      return (await this.#script.mark(key, number, keptMs)) ? 'already' : 'marked'
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      return error.outcome === 'unknown' ? 'unknown' : 'unavailable'
    }
  }
}
