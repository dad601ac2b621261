import type { InstanceStatus } from '../../admin/api/status-endpoint.ts'
import type { OverrideJson } from '../../admin/api/types.ts'
import type { AppliedBundle } from '../../bundle/bundle-intake.ts'
import type { Clock } from '../../clock.ts'
import { appliedJson } from './bundle-json.ts'
import type { Problems } from './problems.ts'

export interface InstanceParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: AppliedBundle | undefined
  readonly stateFile: { readonly path: string; readonly savedAtMs: number | undefined } | undefined
  /** The override, if one stops all enforcement. */
  readonly shadowAll: OverrideJson | undefined
  readonly problems: Problems
}

/** What the main thread knows of the instance, for operators. */
export function instanceStatus({ clock, startedMs, workers, bundle, stateFile, shadowAll, problems }: InstanceParts): InstanceStatus {
  return {
    uptime_s: Math.floor((clock.nowMs() - startedMs) / 1000),
    workers,
    bundle: bundle === undefined ? null : appliedJson(bundle),
    state_file: stateFile === undefined ? null : { path: stateFile.path, saved_at: timeText(stateFile.savedAtMs) },
    shadow_all: shadowAll ?? null,
    problems: problems.list(clock.wallMs()),
  }
}

function timeText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString()
}
