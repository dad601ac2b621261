import type { InstanceStatus } from '../../admin/api/status-endpoint.ts'
import type { Clock } from '../../clock.ts'
import type { BundleInfo } from '../../policy/bundle-info.ts'
import type { Problems } from './problems.ts'

export interface InstanceParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: (BundleInfo & { readonly policies: number }) | undefined
  readonly stateFile: { readonly path: string; readonly savedAtMs: number | undefined } | undefined
  /** The override, if one stops all enforcement. */
  readonly shadowAll: unknown
  readonly problems: Problems
}

/** What the main thread knows of the instance, for operators. */
export function instanceStatus({ clock, startedMs, workers, bundle, stateFile, shadowAll, problems }: InstanceParts): InstanceStatus {
  return {
    uptime_s: Math.floor((clock.nowMs() - startedMs) / 1000),
    workers,
    bundle:
      bundle === undefined
        ? null
        : { version: bundle.version, hash: bundle.hash, applied_at: timeText(bundle.updatedAtS * 1000)!, policies: bundle.policies },
    state_file: stateFile === undefined ? null : { path: stateFile.path, saved_at: timeText(stateFile.savedAtMs) },
    shadow_all: shadowAll ?? null,
    problems: problems.list(clock.wallMs()),
  }
}

function timeText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString()
}
