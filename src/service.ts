/** The composition root: the only place that knows which store, which source and which server there are. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Clock, systemClock } from './clock.ts'
import type { ServerConfig } from './config.ts'
import { Engine } from './engine/engine.ts'
import type { BundleInfo } from './policy/bundle-info.ts'
import type { IpFacts } from './request/ip-facts.ts'
import { EdgeServer } from './server/server.ts'
import { BundleFile } from './source/bundle-file.ts'
import { BundleIntake } from './source/bundle-intake.ts'
import { followIpFiles } from './source/ip-files.ts'
import { newEmbeddedStore } from './store/embedded-store.ts'
import { VERSION } from './version.ts'

export interface Service {
  readonly port: number
  readonly adminPort: number | undefined
  bundle(): BundleInfo | undefined
  /** Looks at the bundle again, changed or not. */
  reload(): Promise<void>
  /** Drains, closes, and is done when nothing is left open. */
  stop(reason: string): Promise<void>
}

/** How long the start waits for files to be read. */
const FIRST_LOOK_MS = 1000

export async function startService(config: ServerConfig, logger: Logger, clock: Clock = systemClock): Promise<Service> {
  const store = newEmbeddedStore(config.storeBytes)
  const ipFacts: IpFacts = {}
  const engine = new Engine({ store, clock, identification: { trustedProxies: config.trustedProxies, ipFacts } })
  const intake = new BundleIntake(
    (plan) => engine.activate(plan),
    () => clock.wallMs(),
  )
  const bundle = (): BundleInfo | undefined => intake.active
  const server = new EdgeServer(config, { engine, clock, logger, bundle, storeStats: () => store.stats() })
  const bundleFile = config.configFile === undefined ? undefined : new BundleFile(config.configFile, intake, logger, server.metrics.reloads)
  const ipFiles = followIpFiles({ geoip: config.geoipFile, ipType: config.ipTypeFile, torExits: config.torExitsFile }, ipFacts, {
    onLoaded: (path, entries) => logger.info({ event: 'ip_file_loaded', path, entries }, 'IP file loaded'),
    onProblem: (path, problem) =>
      logger.error({ event: 'ip_file_refused', path, problem }, 'IP file refused; what was loaded before stays'),
  })
  const firstLook = Promise.all([ipFiles.started, bundleFile?.start()])
  // A file that never settles, or a disk that hangs, must not keep the service from being alive.
  await Promise.race([firstLook, sleep(FIRST_LOOK_MS, undefined, { ref: false })])
  await server.listen()
  logger.info(
    { event: 'started', version: VERSION, mode: config.mode, port: server.port, admin_port: server.adminPort, pid: process.pid },
    'edge started',
  )
  if (config.mode === 'reverse_proxy' && config.adminPort === undefined) {
    logger.warn(
      { event: 'admin_endpoints_exposed' },
      'clients can reach /livez, /readyz, /metrics and the debug endpoints: set EDGE_ADMIN_PORT to move them',
    )
  }
  return {
    port: server.port,
    adminPort: server.adminPort,
    bundle,
    reload: async () => bundleFile?.reload(),
    async stop(reason) {
      logger.info({ event: 'stopping', reason, drain_ms: config.drainMs }, 'shutting down')
      server.drain()
      await sleep(config.drainMs)
      await server.close()
      bundleFile?.stop()
      ipFiles.stop()
      logger.info({ event: 'stopped' }, 'edge stopped')
    },
  }
}
