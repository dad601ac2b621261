import type { Activate, BundleIntake } from '../bundle/bundle-intake.ts'
import type { BundleSource } from '../bundle/bundle-source.ts'
import type { IpFileListener } from '../ip-data/ip-files.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { VERSION } from '../version.ts'
import { BlockExpiryWatch } from './block-expiry-watch.ts'
import { logHeldRules } from './held-rules-log.ts'
import type { OpenState } from './open-state.ts'
import type { StartContext } from './start-context.ts'
import type { Supervisor } from './threads/supervisor.ts'
import { logUnservedDomains } from './unserved-domains-log.ts'

/** Where bundles and IP data come from. */
export interface OpenSources {
  readonly intake: BundleIntake
  /** Undefined where the settings name no source of bundles. */
  readonly bundle: BundleSource | undefined
  /** Resolves when every source was looked at once. A bundle from the cache is active before its URL has answered. */
  readonly firstLook: Promise<unknown>
  close(): Promise<void>
}

/** Begins to look at the sources; what they bring goes to the workers. The code for it is loaded while the workers load theirs. */
export async function openSources(context: StartContext, state: OpenState, supervisor: Supervisor): Promise<OpenSources> {
  const { config, clock, logger } = context
  const [{ BundleIntake, withHostGaps }, { openBundleSource }, { followIpFiles }] = await Promise.all([
    import('../bundle/bundle-intake.ts'),
    import('../bundle/open-bundle-source.ts'),
    import('../ip-data/ip-files.ts'),
  ])
  const wallMs = (): number => clock.wallMs()
  const blockExpiries = new BlockExpiryWatch(logger, wallMs)
  const firstActive = newSignal()
  const activate: Activate = async (bundle, info) => {
    await supervisor.activate(bundle, info)
    blockExpiries.watch(bundle.blockExpiries)
    if (config.mode === 'decision_service') logHeldRules(bundle.limits, logger)
    if (config.grpcPort === undefined && config.grpcSocket === undefined) logUnservedDomains(bundle.domainPolicies, logger)
    firstActive.give()
  }
  const read = config.mode === 'reverse_proxy' ? withHostGaps(context.readBundle) : context.readBundle
  const intake = new BundleIntake(activate, wallMs, config.configPublicKeys, read)
  const bundle = await openBundleSource(config, {
    intake,
    logger,
    reloads: new CounterFamily(state.metrics, 'edge_bundle_reloads_total'),
    cacheWrites: new CounterFamily(state.metrics, 'edge_bundle_cache_writes_total'),
    lastGoodPollS: new CounterFamily(state.metrics, 'edge_bundle_last_good_poll_timestamp_seconds'),
    wallMs,
    userAgent: `edge/${VERSION}`,
    diskTimeoutMs: context.diskTimeoutMs,
  })
  const paths = { geoip: config.geoipFile, ipType: config.ipTypeFile, torExits: config.torExitsFile }
  const ipFiles = followIpFiles(paths, ipFileListener(context, supervisor))
  const firstLook = Promise.all([ipFiles.started, Promise.race([bundle?.start(), firstActive.given])])
  const close = async (): Promise<void> => {
    await bundle?.stop()
    ipFiles.stop()
    blockExpiries.stop()
  }
  return { intake, bundle, firstLook, close }
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
