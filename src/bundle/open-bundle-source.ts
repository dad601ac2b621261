import type { KeyObject } from 'node:crypto'
import type { AllowedHosts } from '../outbound/allowed-hosts.ts'
import type { CacheWriteCounter } from './bundle-cache.ts'
import { BundleFile } from './bundle-file.ts'
import type { BundleIntake } from './bundle-intake.ts'
import type { ReportParts } from './bundle-report.ts'
import type { BundleSource } from './bundle-source.ts'

export interface BundleSettings {
  readonly configFile: string | undefined
  readonly configUrl: URL | undefined
  readonly configToken: string | undefined
  readonly configPollMs: number
  readonly configCacheFile: string | undefined
  readonly configPublicKeys: readonly KeyObject[]
}

export interface BundleSourceParts extends Omit<ReportParts, 'active'> {
  readonly intake: BundleIntake
  readonly cacheWrites: CacheWriteCounter
  /** The series exists, with the value 0, from the first call. */
  readonly lastGoodPollS: { series(): { count: number } }
  readonly wallMs: () => number
  readonly userAgent: string
  /** Where a URL may redirect to. */
  readonly redirectHosts: AllowedHosts
  /** How long the disk of the cache may take to respond; if undefined, the usual disk timeout applies. */
  readonly diskTimeoutMs: number | undefined
}

/** Opens the source that the settings name, and returns undefined if they name none. */
export async function openBundleSource(settings: BundleSettings, parts: BundleSourceParts): Promise<BundleSource | undefined> {
  const { configFile, configUrl, configCacheFile } = settings
  const { intake, logger, reloads } = parts
  for (const result of ['applied', 'refused', 'unchanged', 'unreadable'] as const) reloads.series(result)
  const report: ReportParts = { logger, reloads, active: () => intake.active }
  if (configFile !== undefined) return new BundleFile(configFile, settings.configPublicKeys.length > 0, intake, report)
  if (configUrl === undefined) return undefined
  const lastGoodPollS = parts.lastGoodPollS.series() // created at once, so that an alert can see an instance without any good poll
  const [{ BundleUrl }, { BundleCache }] = await Promise.all([import('./bundle-url.ts'), import('./bundle-cache.ts')])
  return new BundleUrl({
    ...report,
    url: configUrl,
    token: settings.configToken,
    redirectHosts: parts.redirectHosts,
    pollMs: settings.configPollMs,
    userAgent: parts.userAgent,
    cache: configCacheFile === undefined ? undefined : new BundleCache(configCacheFile, logger, parts.cacheWrites, parts.diskTimeoutMs),
    intake,
    onGoodPoll() {
      lastGoodPollS.count = Math.floor(parts.wallMs() / 1000)
    },
  })
}
