/** The composition root: the only place that knows which store, which source and which workers there are. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { overrideJson } from './admin/api/overrides/override-json.ts'
import type { InstanceStatus } from './admin/api/status-endpoint.ts'
import type { TopAsk } from './admin/api/top-endpoint.ts'
import type { Top } from './admin/api/types.ts'
import type { Activate } from './bundle/bundle-intake.ts'
import type { ReadBundle } from './bundle/bundle-reader.ts'
import type { SourceStatus } from './bundle/bundle-source.ts'
import { type Clock, systemClock } from './clock.ts'
import type { ServerConfig } from './config/config.ts'
import { ConnectionShares } from './listen/connection-shares.ts'
import { type ListenAddress, placeOf } from './listen/listen-address.ts'
import { closingMs, type ListenerName, listener, openListeners } from './listen/listeners.ts'
import type { OverrideStorage } from './overrides/override-storage.ts'
import type { BundleInfo } from './policy/bundle-info.ts'
import { BlockExpiryWatch } from './runtime/block-expiry-watch.ts'
import { ActivityControl, activityCalls } from './runtime/control/activity-control.ts'
import { bundleJson } from './runtime/control/bundle-json.ts'
import type { ControlHandlers } from './runtime/control/control-calls.ts'
import { FileOverrideStorage } from './runtime/control/file-override-storage.ts'
import type { FleetControl } from './runtime/control/fleet-control.ts'
import type { FleetNews } from './runtime/control/fleet-news.ts'
import { instanceStatus } from './runtime/control/instance-status.ts'
import { overrideCalls } from './runtime/control/override-calls.ts'
import { OverrideControl } from './runtime/control/override-control.ts'
import { Problems } from './runtime/control/problems.ts'
import { answerTop, type TopControlParts } from './runtime/control/top-control.ts'
import { DecisionLogFile } from './runtime/decision-log/decision-log-file.ts'
import { openEventHub } from './runtime/events/open-event-hub.ts'
import { EvictionWatch } from './runtime/eviction-watch.ts'
import { logHeldRules } from './runtime/held-rules-log.ts'
import { openCounters } from './runtime/open-counters.ts'
import { openReservations } from './runtime/open-reservations.ts'
import { TRACES_CLOSE_MS } from './runtime/open-tracing.ts'
import { newSharedMemory, SUPERVISOR } from './runtime/shared-memory.ts'
import { logStarted } from './runtime/started-log.ts'
import type { BoundListeners } from './runtime/threads/shared-listeners.ts'
import { Supervisor } from './runtime/threads/supervisor.ts'
import type { SharedSocket, WorkerHost } from './runtime/threads/worker-host.ts'
import { logUnservedDomains } from './runtime/unserved-domains-log.ts'
import type { Deadlines } from './store/redis/link/deadlines.ts'
import type { EventTap } from './telemetry/events/event-tap.ts'
import { CounterFamily } from './telemetry/metrics/counter-family.ts'
import { MetricMemory } from './telemetry/metrics/metric-memory.ts'
import { VERSION } from './version.ts'

export interface Service {
  /** Where each open listener accepts connections. */
  readonly addresses: ReadonlyMap<ListenerName, ListenAddress>
  bundle(): BundleInfo | undefined
  /** Undefined: no source of bundles was named. */
  source(): SourceStatus | undefined
  /** Looks at the bundle again, changed or not. */
  reload(): Promise<void>
  /** Whether the disk is waited for, and may be for ever: that holds up even the end of a process. */
  waitsForDisk(): boolean
  /** Drains, closes, and is done when nothing is left open. */
  stop(reason: string): Promise<void>
}

/** How long listeners for requests stay closed for a bundle of which nothing is known: a file on a disk that hangs, a URL that is slow. */
const FIRST_BUNDLE_MS = 10_000
/** The same for a URL, where no other listener shows that the process is alive. */
const FIRST_BUNDLE_UNSEEN_MS = 1000
/** A start that takes longer is worth a line. */
const LOG_WAIT_MS = 3000

/** A worker that does not end by itself is given this much beyond the time that it may take. */
const CLOSE_SLACK_MS = 2000
/** Of Redis: a renewal that is under way, what is given back, and the goodbye. */
const LAST_REDIS_CALLS = 3

export interface StartOptions {
  readonly clock?: Clock
  /** Ends a start that still waits for its first bundle; the reason is logged. */
  readonly interrupt?: AbortSignal
  /** How the drain passes, the wait for the first bundle, and the time before a worker is replaced. */
  readonly pause?: (ms: number) => Promise<unknown>
  /** How long Redis is waited for; real time unless a test holds it. */
  readonly redisDeadlines?: Deadlines | undefined
  /** How long the disk may take to respond to the cache of bundles and to the decision log. */
  readonly diskTimeoutMs?: number
  /** How long a bundle is waited for of which nothing is known. */
  readonly firstBundleMs?: number
  /** How bundles are read; else on this thread. */
  readonly readBundle?: ReadBundle
  /** Of the logger, for those who watch events. */
  readonly tap?: EventTap | undefined
}

export async function startService(
  config: ServerConfig,
  logger: Logger,
  host: WorkerHost,
  {
    clock = systemClock,
    interrupt = new AbortController().signal,
    pause = unobtrusively,
    redisDeadlines,
    diskTimeoutMs,
    firstBundleMs = FIRST_BUNDLE_MS,
    readBundle,
    tap,
  }: StartOptions = {},
): Promise<Service> {
  const { workers } = config
  if (config.decisionLog !== undefined) await DecisionLogFile.check(config.decisionLog, diskTimeoutMs)
  const sockets = await bindListeners(config, host)
  const counters = await openCounters(config.storeBytes, config.stateFile, clock, logger).catch((error: unknown) => {
    for (const socket of sockets.values()) socket.close()
    throw error
  })
  const memory = newSharedMemory(counters.buffer, counters.hashKey, workers, openReservations(config, counters, clock, logger))
  const metrics = new MetricMemory(memory.metrics, SUPERVISOR)
  new CounterFamily(metrics, 'process_start_time_seconds').series().count = Math.round(clock.wallMs() / 1000 - process.uptime())
  const evictionWatch = new EvictionWatch(counters.table, logger)
  const blockExpiries = new BlockExpiryWatch(logger, () => clock.wallMs())
  const startedMs = clock.nowMs()
  const problems = new Problems()
  const activity = config.adminToken === undefined ? undefined : newActivityControl()
  const sendTo: Supervisor['send'] = (worker, message) => supervisor.send(worker, message)
  const events = await openEventHub(config, { eventWatch: memory.eventWatch, problems, metrics, logger, clock, send: sendTo })
  tap?.listen((event) => events?.publish(event))
  const onTaken = (worker: number): void => sendTo(worker, { type: 'decision_lines_taken' })
  const decisionLog =
    config.decisionLog === undefined
      ? undefined
      : new DecisionLogFile({ path: config.decisionLog, metrics, logger, nowMs: () => clock.nowMs(), diskTimeoutMs, onTaken })
  let fleetControl: FleetControl | undefined
  const overrides = new OverrideControl({
    clock,
    logger,
    announce: (change) => supervisor.announceOverrides(change),
    known: () => supervisor.askWorkers('know_overrides', undefined),
  })
  const control: ControlHandlers = {
    status,
    bundle: () => JSON.stringify(bundleJson({ active: intake.active, lastUpdate: intake.lastUpdate, source: bundleSource?.status })),
    save_state: async () => ({ isSaved: (await stateKeeper?.saveNow()) ?? false }),
    open_events: ({ worker }) => events!.openStream(worker),
    top,
    close_events: ({ worker }) => events!.closeStream(worker),
    ...activityCalls(activity),
    ...overrideCalls(overrides),
    note_resets: (resets) => fleetControl?.noteResets(resets),
  }
  const supervisor = new Supervisor({
    host,
    control,
    overrides: () => overrides.announced(),
    events,
    decisionLog,
    workers,
    sockets,
    memory,
    metrics,
    logger,
    nowMs: () => clock.nowMs(),
    pause,
  })
  // What the main thread alone needs is loaded while the workers load what they need.
  const [{ BundleIntake, withHostGaps }, { openBundleSource }, { followIpFiles }] = await Promise.all([
    import('./bundle/bundle-intake.ts'),
    import('./bundle/open-bundle-source.ts'),
    import('./ip-data/ip-files.ts'),
  ])
  const stateKeeper =
    counters.kept && new (await import('./runtime/state-keeper.ts')).StateKeeper({ ...counters.kept, metrics, logger, clock })
  const kept = stateKeeper && { saved: counters.overrides, file: counters.kept!.file, keeper: stateKeeper }
  // Redis may be away: what operators look at does not wait for it.
  const overridesStarted = overrides.start(await openOverrideStorage())
  let noteActive = (): void => {}
  const firstActive = new Promise<void>((resolve) => {
    noteActive = resolve
  })
  const activate: Activate = async (bundle, info) => {
    await supervisor.activate(bundle, info)
    blockExpiries.watch(bundle.blockExpiries)
    if (config.mode === 'decision_service') logHeldRules(bundle.limits, logger)
    if (config.grpcPort === undefined && config.grpcSocket === undefined) logUnservedDomains(bundle.domainPolicies, logger)
    noteActive()
  }
  const read = config.mode === 'reverse_proxy' ? withHostGaps(readBundle) : readBundle
  const intake = new BundleIntake(activate, () => clock.wallMs(), config.configPublicKeys, read)
  const bundleSource = await openBundleSource(config, {
    intake,
    logger,
    reloads: new CounterFamily(metrics, 'edge_bundle_reloads_total'),
    cacheWrites: new CounterFamily(metrics, 'edge_bundle_cache_writes_total'),
    lastGoodPollS: new CounterFamily(metrics, 'edge_bundle_last_good_poll_timestamp_seconds'),
    wallMs: () => clock.wallMs(),
    userAgent: `edge/${VERSION}`,
    diskTimeoutMs,
  })
  const ipFiles = followIpFiles(
    { geoip: config.geoipFile, ipType: config.ipTypeFile, torExits: config.torExitsFile },
    {
      onContent: (file) => supervisor.loadIpFile(file),
      onLoaded: (path, entries) => logger.info({ event: 'ip_file_loaded', path, entries }, 'IP file loaded'),
      onProblem: (path, problem) =>
        logger.error({ event: 'ip_file_refused', path, problem }, 'IP file refused; the previous data stays active'),
    },
  )
  // A bundle from the cache is active before the URL has answered.
  const firstLook = Promise.all([ipFiles.started, Promise.race([bundleSource?.start(), firstActive])])
  const addresses = await open().catch(async (error: unknown) => {
    if (error instanceof StartInterrupted) await stop(error.message, 0)
    throw error
  })
  stateKeeper?.start()
  logStarted(config, addresses, logger)
  return {
    addresses,
    bundle: () => intake.active,
    source: () => bundleSource?.status,
    reload: async () => bundleSource?.reload(),
    waitsForDisk: () => stateKeeper?.isSlow || decisionLog?.isSlow || bundleSource?.status.isDiskSlow || false,
    stop: (reason) => stop(reason, config.drainMs),
  }

  async function openOverrideStorage(): Promise<OverrideStorage> {
    const { map } = overrides
    const { redis } = config
    if (redis === undefined)
      return new FileOverrideStorage({ map, clock, logger, kept, askThreads: () => supervisor.askWorkers('know_overrides', undefined) })
    const { openFleetControl } = await import('./runtime/control/open-fleet-control.ts')
    fleetControl = openFleetControl(redis, {
      config,
      map,
      clock,
      logger,
      deadlines: redisDeadlines,
      announce: (news, all) => void announceFleet(news, all),
    })
    return fleetControl
  }

  /** After the overrides: a worker that says that it knows one must have it. */
  async function announceFleet(news: FleetNews, all: FleetNews): Promise<void> {
    await overrides.allAnnounced()
    supervisor.announceFleet(news, all)
  }

  /** Asked only when something is open, and everything is there. */
  function status(): InstanceStatus {
    return instanceStatus({
      clock,
      startedMs,
      workers: { configured: workers, alive: supervisor.livingCount },
      bundle: intake.active,
      stateFile: stateKeeper,
      shadowAll: overrides.shadowAll && overrideJson(overrides.shadowAll, undefined),
      problems,
    })
  }

  function newActivityControl(): ActivityControl {
    return new ActivityControl({
      memory: metrics,
      shares: new ConnectionShares(memory.connections, SUPERVISOR),
      table: counters.table,
      isProxy: config.mode === 'reverse_proxy',
      isFleet: config.redis !== undefined,
      clock,
      logger,
    })
  }

  function top(ask: TopAsk): Promise<Top> {
    const askWorkers: TopControlParts['askWorkers'] = (filter) => supervisor.askWorkers('top', filter)
    return answerTop(ask, { clock, startedMs, workers, askWorkers, lastDeathMs: () => supervisor.lastDeathMs })
  }

  /** What operators look at opens first, what requests come to when there is nothing more to wait for. */
  async function open(): Promise<Map<ListenerName, ListenAddress>> {
    const interrupted = rejectionOf(interrupt)
    const step = <Result>(work: Promise<Result>): Promise<Result> => Promise.race([work, supervisor.failed(), interrupted])
    await step(supervisor.up())
    const early = await step(supervisor.open('early'))
    const admin = early.get('admin')
    if (admin !== undefined) logger.info({ event: 'admin_listening', port: placeOf(admin) }, 'the admin port is open')
    const isUnseen = config.configUrl !== undefined && early.size === 0
    const waitMs = isUnseen ? FIRST_BUNDLE_UNSEEN_MS : firstBundleMs
    const logWait = setTimeout(() => {
      logger.info(
        { event: 'waiting_for_bundle', up_to_ms: waitMs },
        'the port stays closed until the first bundle is active or known to be missing',
      )
    }, LOG_WAIT_MS)
    try {
      await step(Promise.race([firstLook, pause(waitMs)]))
      await step(overridesStarted)
      // One that has come is waited for, however long a busy machine takes to compile it.
      await step(intake.offered)
    } finally {
      clearTimeout(logWait)
    }
    return new Map([...early, ...(await step(supervisor.open('ready')))])
  }

  async function stop(reason: string, drainMs: number): Promise<void> {
    const redisMs = config.redis === undefined ? 0 : LAST_REDIS_CALLS * config.redisTimeoutMs
    const tracesMs = config.otlpUrl === undefined ? 0 : TRACES_CLOSE_MS
    const closeMs = closingMs(config) + redisMs + tracesMs + CLOSE_SLACK_MS
    const upToMs = drainMs + closeMs + (events?.closeMs ?? 0)
    logger.info({ event: 'stopping', reason, drain_ms: drainMs, up_to_ms: upToMs }, 'shutting down')
    events?.flush()
    supervisor.drain()
    await pause(drainMs)
    await supervisor.close(closeMs)
    await decisionLog?.close()
    await bundleSource?.stop()
    ipFiles.stop()
    evictionWatch.stop()
    blockExpiries.stop()
    activity?.stop()
    await overrides.close()
    await stateKeeper?.close()
    logger.info({ event: 'stopped' }, 'edge stopped')
    await events?.close()
  }
}

/** Binds all listeners, or none: an error says which one it is about. */
async function bindListeners(config: ServerConfig, host: WorkerHost): Promise<BoundListeners> {
  const sockets = new Map<ListenerName, SharedSocket>()
  for (const name of openListeners(config)) {
    try {
      sockets.set(name, await host.bind(listener(name).address(config)!, config.workers))
    } catch (error) {
      for (const socket of sockets.values()) socket.close()
      throw Object.assign(error as Error, { listener: name })
    }
  }
  return sockets
}

/** Workers keep the process alive, not its pauses. */
function unobtrusively(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false })
}

/** A start that was told to end before its port was open; everything is closed again. The message is the reason. */
export class StartInterrupted extends Error {}

function rejectionOf(signal: AbortSignal): Promise<never> {
  const rejection = new Promise<never>((_, reject) => {
    const interrupt = (): void => reject(new StartInterrupted(String(signal.reason)))
    if (signal.aborted) interrupt()
    else signal.addEventListener('abort', interrupt, { once: true })
  })
  rejection.catch(() => {}) // it may come when the start is over
  return rejection
}
