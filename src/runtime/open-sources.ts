import type { Logger } from 'pino'
import type { KeySetJson } from '../admin/api/instance-types.ts'
import type { BundleHistory } from '../bundle/bundle-history.ts'
import type { Activate, BundleIntake } from '../bundle/bundle-intake.ts'
import type { GoodBundle, ReadBundle } from '../bundle/bundle-reader.ts'
import type { BundleSource } from '../bundle/bundle-source.ts'
import type { KeySetsChange } from '../callers/key-sets/key-set-news.ts'
import type { KeySets } from '../callers/key-sets/key-sets.ts'
import { keySourceProblems } from '../callers/key-sets/key-source.ts'
import { backendHostsOf, type ServerConfig } from '../config/config.ts'
import { VERSION } from '../files/package-files.ts'
import type { IpFileListener } from '../ip-data/ip-files.ts'
import { backendHostProblems } from '../outbound/allowed-hosts.ts'
import type { NamedLimit } from '../policy/compile.ts'
import type { ExampleRequest } from '../policy/example-request.ts'
import { type BlockExpiry, heldRuleNote, heldRules } from '../policy/review/warnings.ts'
import type { NamedSecrets, Secrets } from '../secrets/secrets.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { OpenState } from './open-state.ts'
import type { StartContext } from './start-context.ts'
import type { Supervisor } from './threads/supervisor.ts'

/** The sources of bundles and IP data. */
export interface OpenSources {
  readonly intake: BundleIntake
  /** Undefined if the settings name no source of bundles. */
  readonly bundle: BundleSource | undefined
  /** Undefined without a token for operators. */
  readonly history: BundleHistory | undefined
  /** Returns a request to try the active bundle with; undefined if there is none. */
  readonly example: () => ExampleRequest | undefined
  /** Resolves once the IP files were read and the bundle source was tried, or has made a bundle active: a cached one can be before its URL responds. */
  readonly firstLook: Promise<unknown>
  /** Describes the key sets that the active bundle names. */
  readonly keySets: () => readonly KeySetJson[]
  /** Reads the bundle and all key sets again, whether or not they have changed. */
  reload(): Promise<void>
  close(): Promise<void>
}

/** Starts to watch the sources and sends what they bring to the workers. Its code is loaded while the workers load theirs. */
export async function openSources(context: StartContext, state: OpenState, supervisor: Supervisor): Promise<OpenSources> {
  const { config, clock, logger } = context
  const [{ BundleIntake, readHere, withProxyWarnings }, { BundleHistory }, { openBundleSource }, { followIpFiles }] = await Promise.all([
    import('../bundle/bundle-intake.ts'),
    import('../bundle/bundle-history.ts'),
    import('../bundle/open-bundle-source.ts'),
    import('../ip-data/ip-files.ts'),
  ])
  const wallMs = (): number => clock.wallMs()
  const blockExpiries = new BlockExpiryWatch(logger, wallMs)
  const firstActive = newSignal()
  let keySets: KeySets | undefined
  const secrets = new BundleSecrets(context, state, supervisor, () => void bundle?.reload())
  let example: ExampleRequest | undefined
  const activate: Activate = async (bundle, info) => {
    const { keySetEntries } = bundle
    if (keySetEntries.length > 0) keySets ??= await openKeySets(context, state, supervisor)
    const switchPlan = (): Promise<void> => supervisor.activate(bundle, info)
    const switchSecrets = (): Promise<void> => secrets.switchTo(bundle, switchPlan)
    await (keySets === undefined ? switchSecrets() : keySets.switchTo(keySetEntries, switchSecrets))
    example = bundle.example
    blockExpiries.watch(bundle.blockExpiries)
    if (config.mode === 'decision_service') {
      logHeldRules(bundle.limits, logger)
      logUnusedRoutes(bundle.routeCount, logger)
    }
    if (config.grpcPort === undefined && config.grpcSocket === undefined) logUnservedDomains(bundle.domainPolicies, logger)
    firstActive.give()
  }
  const readPlain = context.readBundle ?? readHere
  const read = secrets.checked(withAllowedPlaces(config.mode === 'reverse_proxy' ? withProxyWarnings(readPlain) : readPlain, config))
  // Only operators with a token can ask for it.
  const history = config.adminToken === undefined ? undefined : new BundleHistory(readPlain)
  const intake = new BundleIntake(activate, wallMs, config.configPublicKeys, read, history)
  const bundle = await openBundleSource(config, {
    intake,
    logger,
    reloads: new CounterFamily(state.metrics, 'edge_bundle_reloads_total'),
    cacheWrites: new CounterFamily(state.metrics, 'edge_bundle_cache_writes_total'),
    lastGoodPollS: new CounterFamily(state.metrics, 'edge_bundle_last_good_poll_timestamp_seconds'),
    wallMs,
    userAgent: USER_AGENT,
    redirectHosts: backendHostsOf(config),
    diskTimeoutMs: context.diskTimeoutMs,
  })
  const paths = { geoip: config.geoipFile, ipType: config.ipTypeFile, torExits: config.torExitsFile }
  const ipFiles = followIpFiles(paths, ipFileListener(context, supervisor))
  const firstLook = Promise.all([ipFiles.started, Promise.race([bundle?.start(), firstActive.given])])
  const close = async (): Promise<void> => {
    await bundle?.stop()
    ipFiles.stop()
    keySets?.close()
    secrets.close()
    blockExpiries.stop()
  }
  const reload = async (): Promise<void> => {
    await Promise.all([bundle?.reload(), keySets?.readAgain()])
  }
  return { intake, bundle, history, example: () => example, firstLook, keySets: () => keySets?.describe() ?? [], reload, close }
}

const USER_AGENT = `edge/${VERSION}`

/** Its code is loaded only for bundles that need it. */
async function openKeySets(context: StartContext, { metrics }: OpenState, supervisor: Supervisor): Promise<KeySets> {
  const [{ KeySets }, { readKeySet: read }] = await Promise.all([
    import('../callers/key-sets/key-sets.ts'),
    import('../callers/jwt/key-set.ts'),
  ])
  const { secretsDir } = context.config
  const announce = (change: KeySetsChange): void => supervisor.announceKeySets(change)
  const keySets = new KeySets({ ...context, secretsDir, userAgent: USER_AGENT, read, metrics, announce })
  supervisor.followKeySets(keySets)
  return keySets
}

/** Refuses bundles that would have the process read key sets, or send requests, where the settings do not allow it. */
function withAllowedPlaces(read: ReadBundle, config: ServerConfig): ReadBundle {
  const settings = { backendHosts: backendHostsOf(config), secretsDir: config.secretsDir }
  return async (...given) => {
    const reading = await read(...given)
    if (!reading.ok) return reading
    const problems = [
      ...keySourceProblems(reading.keySetEntries, settings),
      ...backendHostProblems(reading.backends, settings.backendHosts),
    ]
    if (problems.length === 0) return reading
    return { ok: false, version: String(reading.bundle.version), problems, warnings: reading.warnings }
  }
}

/** Lets bundles become active only together with the secrets that they name. Secrets are used by `reverse_proxy` alone. */
class BundleSecrets {
  readonly #context: StartContext
  readonly #state: OpenState
  readonly #supervisor: Supervisor
  readonly #onComplete: () => void
  #secrets: Secrets | undefined

  /** `onComplete` is called when the last refused bundle can be offered again, because the secrets that it lacked are there. */
  constructor(context: StartContext, state: OpenState, supervisor: Supervisor, onComplete: () => void) {
    this.#context = context
    this.#state = state
    this.#supervisor = supervisor
    this.#onComplete = onComplete
  }

  /** Refuses bundles whose secrets are missing or cannot be used. */
  checked(read: ReadBundle): ReadBundle {
    if (this.#context.config.mode !== 'reverse_proxy') return read
    return async (...given) => {
      const reading = await read(...given)
      if (!reading.ok) return reading
      if (reading.secretUses.length > 0) this.#secrets ??= await this.#open()
      const problems = (await this.#secrets?.problemsOf(reading.secretUses)) ?? []
      if (problems.length === 0) return reading
      return { ok: false, version: String(reading.bundle.version), problems, warnings: reading.warnings }
    }
  }

  /** Must be called with bundles that were `checked`. */
  async switchTo({ secretUses }: GoodBundle, activate: () => Promise<void>): Promise<void> {
    await (this.#secrets === undefined ? activate() : this.#secrets.switchTo(secretUses, activate))
  }

  close(): void {
    this.#secrets?.close()
  }

  /** Its code is loaded only for bundles that need it. */
  async #open(): Promise<Secrets> {
    const { Secrets } = await import('../secrets/secrets.ts')
    const { config: places, logger, clock } = this.#context
    const { metrics } = this.#state
    const announce = (changed: NamedSecrets): void => this.#supervisor.announceSecrets(changed)
    const secrets = new Secrets({ places, logger, clock, metrics, announce, onComplete: this.#onComplete })
    this.#supervisor.followSecrets(secrets)
    return secrets
  }
}

function ipFileListener({ logger }: StartContext, supervisor: Supervisor): IpFileListener {
  return {
    onContent: (file) => supervisor.loadIpFile(file),
    onLoaded: (path, entries) => logger.info({ event: 'ip_file_loaded', path, entries }, 'IP file loaded'),
    onProblem: (path, problem) =>
      logger.error({ event: 'ip_file_refused', path, problem }, 'IP file refused; the previous data stays active'),
  }
}

interface Signal {
  readonly given: Promise<void>
  give(): void
}

function newSignal(): Signal {
  let give!: () => void
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give }
}

const LOOK_MS = 1000

/** Logs each block of the active bundle once when it has expired, at load or later. */
class BlockExpiryWatch {
  readonly #logger: Logger
  readonly #wallMs: () => number
  #pending: readonly BlockExpiry[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger, wallMs: () => number) {
    this.#logger = logger
    this.#wallMs = wallMs
  }

  /** Watches the blocks of the bundle that has become active instead of the previous ones. */
  watch(expiries: readonly BlockExpiry[]): void {
    this.stop()
    this.#pending = expiries
    this.#look()
    // It polls instead of setting a timer for the next expiry, because the wall clock may be set.
    if (this.#pending.length > 0) this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const wallMs = this.#wallMs()
    for (const { policy, rule, expiresAt, expiresAtMs } of this.#pending) {
      if (expiresAtMs > wallMs) continue
      const what = { event: 'block_expired', policy, rule, expires_at: expiresAt }
      this.#logger.warn(what, 'a block has expired and blocks nobody: remove it from the bundle')
    }
    this.#pending = this.#pending.filter(({ expiresAtMs }) => expiresAtMs > wallMs)
    if (this.#pending.length === 0) this.stop()
  }
}

/** Enough to show the problem; `edge validate` lists all rules. */
const LOGGED_RULES = 50

/** Logs which concurrency rules may count a request for the whole of `hold_seconds`, because no gateway has to report its end. */
function logHeldRules(limits: readonly NamedLimit[], logger: Logger): void {
  const rules = heldRules(limits).slice(0, LOGGED_RULES).map(heldRuleNote)
  if (rules.length === 0) return
  logger.warn({ event: 'holds_expire', rules }, 'concurrency rules count each request for hold_seconds, unless the gateway reports its end')
}

/** One bundle may serve gateways and the proxy, so routes are no reason to refuse it. */
function logUnusedRoutes(routes: number, logger: Logger): void {
  if (routes > 0) logger.warn({ event: 'routes_unused', routes }, 'routes have no effect in decision_service, which forwards nothing')
}

/** Enough to show the problem. */
const LOGGED_POLICIES = 50

/** Logs which policies of a bundle cover nothing, because no listener serves the rate limit service. */
function logUnservedDomains(policies: readonly string[], logger: Logger): void {
  if (policies.length === 0) return
  logger.warn(
    { event: 'domains_unserved', policies: policies.slice(0, LOGGED_POLICIES) },
    'policies with a domain cover nothing: set EDGE_GRPC_PORT or EDGE_GRPC_SOCKET',
  )
}
