import type { OverrideJson, TopJson } from '../admin/api/types.ts'
import type { TopAsk } from '../admin/endpoints/activity-endpoints.ts'
import type { InstanceStatus } from '../admin/endpoints/instance-endpoints.ts'
import type { AppliedBundle } from '../bundle/bundle-source.ts'
import type { Clock } from '../time/clock.ts'
import type { TopFilter } from '../top/caller-ids.ts'
import { mergedTop, type TopReport } from '../top/top-callers.ts'
import { appliedJson } from './bundle-reports.ts'
import type { Problems } from './problems.ts'

export interface InstanceParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: AppliedBundle | undefined
  readonly stateFile: { readonly path: string; readonly savedAtMs: number | undefined } | undefined
  /** The override that stops all enforcement, if there is one. */
  readonly shadowAll: OverrideJson | undefined
  readonly problems: Problems
}

/** Describes the instance for operators, as far as the main thread knows it. */
export function instanceStatus({ clock, startedMs, workers, bundle, stateFile, shadowAll, problems }: InstanceParts): InstanceStatus {
  return {
    uptime_s: Math.floor((clock.nowMs() - startedMs) / 1000),
    memory_bytes: process.memoryUsage.rss(),
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

export interface TopControlParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: number
  /** Returns the reports of the workers that answer in time. */
  readonly askWorkers: (filter: TopFilter) => Promise<readonly TopReport[]>
  /** When a worker last died, on the monotonic clock: its counts were lost with it. */
  readonly lastDeathMs: () => number
}

/** Asks all workers and merges the reports of those that answer in time. */
export async function answerTop({ limit, ...filter }: TopAsk, parts: TopControlParts): Promise<TopJson> {
  const { clock, startedMs } = parts
  const reports = await parts.askWorkers(filter)
  const { sinceMs, maxError, rejected, nearest } = mergedTop(reports, filter, limit)
  const ageMs = clock.nowMs() - Math.max(sinceMs, startedMs)
  const since = new Date(clock.wallMs() - ageMs).toISOString()
  const complete = reports.length === parts.workers && parts.lastDeathMs() < sinceMs
  return { since, max_error: maxError, complete, rejected, nearest }
}
