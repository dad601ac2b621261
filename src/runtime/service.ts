import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { SourceStatus } from '../bundle/bundle-source.ts'
import type { ServerConfig } from '../config/config.ts'
import { unknownVariableText } from '../config/settings.ts'
import type { OverrideControl } from '../control/overrides/override-control.ts'
import type { StateKeeper } from '../control/state-keeper.ts'
import { VERSION } from '../files/package-files.ts'
import { closingMs, isUnixSocket, type ListenAddress, type ListenerName, portOrPath } from '../listen/listeners.ts'
import type { TimedOverride } from '../overrides/override.ts'
import type { ExampleRequest } from '../policy/example-request.ts'
import type { BundleInfo } from '../policy/plan.ts'
import { TrustedProxies } from '../request/client-address.ts'
import { describeRedisAddress } from '../store/redis/link/redis-address.ts'
import { parseAddress } from '../text/address.ts'
import type { TlsFiles } from '../tls/tls-files.ts'
import { bindListeners, closeSockets, listenWhenReady, StartInterrupted } from './listening.ts'
import { controlCalls, newOverrides, type OpenControl, openControl } from './open-control.ts'
import { type OpenKeys, openKeys } from './open-keys.ts'
import { checkReports, type OpenReports, openReports } from './open-reports.ts'
import { type OpenSources, openSources } from './open-sources.ts'
import { type OpenState, openState, openStateKeeper } from './open-state.ts'
import { TRACES_CLOSE_MS } from './open-tracing.ts'
import { newStartContext, type StartContext, type StartOptions } from './start-context.ts'
import type { BoundListeners } from './threads/shared-listeners.ts'
import { Supervisor } from './threads/supervisor.ts'
import { type WorkerHost, WorkerSlots } from './threads/worker-host.ts'

/** The composition root of the process: the only file that knows which store, which sources and which workers there are. */

export interface Service {
  /** Where each open listener accepts connections. */
  readonly addresses: ReadonlyMap<ListenerName, ListenAddress>
  bundle(): BundleInfo | undefined
  /** A request to try the active bundle with; undefined if it covers none. */
  example(): ExampleRequest | undefined
  /** Undefined if the settings name no source of bundles. */
  source(): SourceStatus | undefined
  /** Reads the bundle, its key sets and the certificates again, whether or not they have changed. */
  reload(): Promise<void>
  /** Whether a disk operation has passed its timeout and may never end; while one is pending, the process cannot exit normally. */
  waitsForDisk(): boolean
  /** The longest that `stop` takes, apart from writing files. */
  readonly stopUpToMs: number
  /** Drains and closes. Resolves when nothing is left open. */
  stop(reason: string): Promise<void>
}

/** Grace beyond the time that workers may take to close; after it they are terminated. */
const CLOSE_SLACK_MS = 2000
/** Redis calls that may still be made during shutdown: one renewal or growth, one give-back, one QUIT. */
const LAST_REDIS_CALLS = 3
/** The longest that a failed start may take to close what it has opened. */
const ABANDON_MS = 2000

/** The parts that are open while the service runs. */
interface OpenService {
  readonly state: OpenState
  readonly reports: OpenReports
  readonly supervisor: Supervisor
  /** Undefined if EDGE_STATE_FILE is not set. */
  readonly stateKeeper: StateKeeper | undefined
  readonly control: OpenControl
  readonly keys: OpenKeys
  /** Resolves when the keys from before the start are known, or when waiting any longer makes no sense. */
  readonly keysStarted: Promise<void>
  readonly sources: OpenSources
  /** Undefined if there are no certificates. */
  readonly tls: TlsFiles | undefined
}

/** Starts the service phase by phase. If a phase fails, what earlier phases opened is closed; `shutDown` ends a running service. */
export async function startService(config: ServerConfig, logger: Logger, host: WorkerHost, options: StartOptions = {}): Promise<Service> {
  const context = newStartContext(config, logger, options)
  const undo = new Undo()
  logUnknownVariables(config, logger)
  try {
    await checkReports(context)
    const tls = await readTlsFiles(context)

    const sockets = await bindListeners(config, host)
    const closeBound = undo.add(() => closeSockets(sockets))

    const state = await openState(context)
    undo.add(() => state.abandon())

    const slots = new WorkerSlots(config.workers)
    const reports = await openReports(context, state, slots)
    undo.add(() => reports.abandon())

    const keys = await openKeys(context, state, reports, slots)
    undo.add(() => keys.close())

    const overrides = newOverrides(context, slots, reports)
    const supervisor = startWorkers(context, host, { slots, sockets, state, reports, overrides, tls })
    undo.remove(closeBound) // the supervisor closes them from now on
    undo.add(() => supervisor.close(0))
    tls?.follow({ metrics: state.metrics, announce: (material) => supervisor.announceTls(material) })
    undo.add(() => tls?.close())

    const stateKeeper = await openStateKeeper(context, state, slots)
    const control = await openControl(context, { overrides, state, slots, supervisor, stateKeeper })
    undo.add(() => overrides.close())
    const keysStarted = keys.start(control.fleet)

    const sources = await openSources(context, state, supervisor)
    undo.add(() => sources.close())

    supervisor.answerWith(controlCalls(context, { slots, supervisor, reports, stateKeeper, control, keys, sources }))
    const open: OpenService = { state, reports, supervisor, stateKeeper, control, keys, keysStarted, sources, tls }
    const addresses = await listenWhenReady(context, open).catch(async (error: unknown) => {
      if (error instanceof StartInterrupted) await shutDown(context, open, error.message, 0)
      throw error
    })

    stateKeeper?.start()
    logStarted(config, addresses, logger)
    return newService(context, open, addresses)
  } catch (error) {
    if (!(error instanceof StartInterrupted)) await undo.run()
    throw error
  }
}

interface WorkersParts {
  readonly slots: WorkerSlots
  readonly sockets: BoundListeners
  readonly state: OpenState
  readonly reports: OpenReports
  readonly overrides: OverrideControl
  readonly tls: TlsFiles | undefined
}

/** Reads the files of TLS. Their code is loaded only if there are any. */
async function readTlsFiles(context: StartContext): Promise<TlsFiles | undefined> {
  const { config } = context
  if (config.tlsCertFiles.length === 0) return undefined
  const { TlsFiles } = await import('../tls/tls-files.ts')
  return TlsFiles.read(config, context)
}

/** Starts the workers, which load their code while the next phases run. */
function startWorkers(
  { logger, clock, pause }: StartContext,
  host: WorkerHost,
  { slots, sockets, state, reports, overrides, tls }: WorkersParts,
): Supervisor {
  const { memory, metrics } = state
  const { events, decisionLog, usageFiles } = reports
  const nowMs = (): number => clock.nowMs()
  const announced = (): readonly TimedOverride[] => overrides.announced()
  const material = tls && (() => tls.material)
  return new Supervisor({
    host,
    slots,
    sockets,
    memory,
    metrics,
    events,
    decisionLog,
    usageFiles,
    overrides: announced,
    tls: material,
    logger,
    nowMs,
    pause,
  })
}

function newService(context: StartContext, open: OpenService, addresses: ReadonlyMap<ListenerName, ListenAddress>): Service {
  const { reports, stateKeeper, keys, sources, tls } = open
  const { drainMs } = context.config
  return {
    addresses,
    bundle: () => sources.intake.active,
    example: sources.example,
    source: () => sources.bundle?.status,
    reload: async () => void (await Promise.all([sources.reload(), tls?.readAgain()])),
    waitsForDisk: () =>
      stateKeeper?.isSlow ||
      reports.decisionLog?.isSlow ||
      reports.usageFiles?.isSlow ||
      keys.control.isSlow() ||
      sources.bundle?.status.isDiskSlow ||
      false,
    stopUpToMs: stopUpToMs(context, open, drainMs),
    stop: (reason) => shutDown(context, open, reason, drainMs),
  }
}

/** Requests end first, then what fed and watched the workers; then the state is saved. The event hub is closed last, so that it can still publish the end. */
async function shutDown(context: StartContext, open: OpenService, reason: string, drainMs: number): Promise<void> {
  const { config, logger, pause } = context
  const { state, reports, supervisor, stateKeeper, control, keys, sources, tls } = open
  logger.info({ event: 'stopping', reason, drain_ms: drainMs, up_to_ms: stopUpToMs(context, open, drainMs) }, 'shutting down')
  reports.events?.flush()
  supervisor.drain()
  await pause(drainMs)
  await supervisor.close(workersCloseMs(config))
  await reports.decisionLog?.close()
  await reports.usageFiles?.close()
  await sources.close()
  tls?.close()
  state.limitWatch.stop()
  reports.activity?.stop()
  await keys.close()
  await control.overrides.close()
  await stateKeeper?.close()
  logger.info({ event: 'stopped' }, 'edge stopped')
  await reports.events?.close()
}

/** Without the steps that write files, which take as long as the disk does. */
function stopUpToMs({ config }: StartContext, { reports }: OpenService, drainMs: number): number {
  return drainMs + workersCloseMs(config) + (reports.events?.closeMs ?? 0)
}

/** The longest that workers may take to close, once they have drained. */
function workersCloseMs(config: ServerConfig): number {
  const redisMs = config.redis === undefined ? 0 : LAST_REDIS_CALLS * config.redisTimeoutMs
  const tracesMs = config.otlpUrl === undefined ? 0 : TRACES_CLOSE_MS
  return closingMs(config) + redisMs + tracesMs + CLOSE_SLACK_MS
}

type UndoStep = () => void | Promise<void>

/** The steps that close what a start has opened so far. */
class Undo {
  readonly #steps = new Set<UndoStep>()

  add(step: UndoStep): UndoStep {
    this.#steps.add(step)
    return step
  }

  remove(step: UndoStep): void {
    this.#steps.delete(step)
  }

  /** Runs the steps in reverse order. One that fails or takes too long must not hide why the start failed. */
  async run(): Promise<void> {
    const timer = new AbortController()
    await Promise.race([this.#runAll(), sleep(ABANDON_MS, undefined, { signal: timer.signal }).catch(() => {})])
    timer.abort()
  }

  async #runAll(): Promise<void> {
    for (const step of [...this.#steps].reverse())
      await Promise.resolve()
        .then(step)
        .catch(() => {})
  }
}

/** Length of the debug secret below which a warning is logged. */
const SAFE_SECRET_CHARACTERS = 16

type Addresses = ReadonlyMap<ListenerName, ListenAddress>

/** Variables beyond this number are counted in one line, so that a strange environment cannot fill the log. */
const MAX_NAMED_VARIABLES = 20

/** Warns of misspelled settings before anything else is logged. */
function logUnknownVariables({ unknownVariables: unknown }: ServerConfig, logger: Logger): void {
  for (const variable of unknown.slice(0, MAX_NAMED_VARIABLES)) {
    const { name, suggestion } = variable
    logger.warn({ event: 'unknown_variable', variable: name, suggestion }, unknownVariableText(variable))
  }
  const unlogged = unknown.length - MAX_NAMED_VARIABLES
  if (unlogged > 0)
    logger.warn({ event: 'unknown_variable', unlogged }, `${unlogged} further EDGE_ variables are not settings and have no effect`)
}

/** Logs that the service accepts requests and where, and warns about risky settings. */
function logStarted(config: ServerConfig, addresses: Addresses, logger: Logger): void {
  const { mode, workers, debugSessionSecret } = config
  const redis = config.redis && { redis: describeRedisAddress(config.redis), redis_mode: config.redisMode }
  logger.info(
    { event: 'started', version: VERSION, mode, ...addressFields(addresses), workers, pid: process.pid, ...redis },
    'edge started',
  )
  if (mode === 'reverse_proxy' && !addresses.has('admin')) {
    logger.warn(
      { event: 'admin_endpoints_exposed' },
      'clients can reach /livez, /readyz, /metrics and the debug endpoints; set EDGE_ADMIN_PORT to move them to another port',
    )
  }
  const admin = addresses.get('admin')
  const isAdminPlain = config.tlsCertFiles.length === 0 || !config.tlsListeners.includes('admin')
  if (config.adminToken !== undefined && admin !== undefined && !isUnixSocket(admin) && !isLoopback(admin.host) && isAdminPlain) {
    logger.warn(
      { event: 'admin_token_unencrypted', host: admin.host },
      'EDGE_ADMIN_TOKEN is sent in plain HTTP to a port that other machines can reach; set EDGE_ADMIN_HOST=127.0.0.1, add admin to EDGE_TLS_LISTENERS, or let only a proxy with TLS reach it',
    )
  }
  // Code points are counted, which are closer to what people call characters than bytes are.
  if (debugSessionSecret !== undefined && [...debugSessionSecret].length < SAFE_SECRET_CHARACTERS) {
    logger.warn(
      { event: 'debug_secret_short', at_least: SAFE_SECRET_CHARACTERS },
      `EDGE_DEBUG_SESSION_SECRET has fewer than ${SAFE_SECRET_CHARACTERS} characters and can be guessed; create a better one with openssl rand -base64 32`,
    )
  }
}

const LOOPBACK = new TrustedProxies('loopback')

function isLoopback(host: string | undefined): boolean {
  const address = host === undefined ? undefined : parseAddress(host)
  return address !== undefined && LOOPBACK.includes(address)
}

/** Names each address by its listener; the field `port` is the main listener's. */
function addressFields(addresses: Addresses): Record<string, number | string> {
  const nameOf = (name: ListenerName, address: ListenAddress): string => {
    if (isUnixSocket(address)) return name
    return name === 'main' ? 'port' : `${name}_port`
  }
  return Object.fromEntries(Array.from(addresses, ([name, address]) => [nameOf(name, address), portOrPath(address)]))
}
