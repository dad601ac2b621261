import type { TopJson } from '../admin/api/caller-types.ts'
import type { KeySetJson, ProblemJson } from '../admin/api/instance-types.ts'
import type { OverrideJson } from '../admin/api/types.ts'
import type { TopAsk } from '../admin/endpoints/activity-endpoints.ts'
import type { InstanceStatus } from '../admin/endpoints/instance-endpoints.ts'
import type { AppliedBundle, Refusal } from '../bundle/bundle-source.ts'
import type { Clock } from '../time/clock.ts'
import { mergedTop } from '../top/merged-top.ts'
import type { TopReport } from '../top/top-callers.ts'
import type { TopFilter } from '../top/top-filter.ts'
import { appliedJson } from './bundle-reports.ts'
import type { Problems } from './problems.ts'
import { type SilentBackend, silentProblems } from './silent-requests.ts'

export interface InstanceParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: AppliedBundle | undefined
  readonly stateFile: { readonly path: string; readonly savedAtMs: number | undefined } | undefined
  readonly keySets: readonly KeySetJson[]
  /** The override that stops all enforcement, if there is one. */
  readonly shadowAll: OverrideJson | undefined
  readonly problems: Problems
  /** Why the bundle that the source has now was refused; undefined if it was not. */
  readonly refusal: Refusal | undefined
  /** What all workers report of requests that have been silent for `silentMs`. */
  readonly silent: readonly SilentBackend[]
  readonly silentMs: number
}

const MAX_DETAILS = 10

/** Describes the instance for operators, as far as the main thread knows it. */
export function instanceStatus(parts: InstanceParts): InstanceStatus {
  const { clock, startedMs, workers, bundle, stateFile, keySets, shadowAll, problems, refusal, silent, silentMs } = parts
  const wallMs = clock.wallMs()
  return {
    uptime_s: Math.floor((clock.nowMs() - startedMs) / 1000),
    memory_bytes: process.memoryUsage.rss(),
    workers,
    bundle: bundle === undefined ? null : appliedJson(bundle),
    state_file: stateFile === undefined ? null : { path: stateFile.path, saved_at: timeText(stateFile.savedAtMs) },
    key_sets: keySets,
    shadow_all: shadowAll ?? null,
    problems: [
      ...problems.list(wallMs).map((problem) => (problem.code === 'bundle_refused' ? detailed(problem, refusal) : problem)),
      ...silentProblems(silent, silentMs, wallMs),
    ],
  }
}

/** The event has all problems only where they are short. */
function detailed(
  problem: ProblemJson,
  { problems, problemsInAll }: Refusal = { problems: [], problemsInAll: 0, version: undefined, hash: undefined },
): ProblemJson {
  return { ...problem, details: problems.slice(0, MAX_DETAILS), details_in_all: problemsInAll }
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
export async function answerTop({ limit, sinceMs: askedMs, ...filter }: TopAsk, parts: TopControlParts): Promise<TopJson> {
  const { clock, startedMs, lastDeathMs } = parts
  const reports = await parts.askWorkers(filter)
  const offsetMs = clock.wallMs() - clock.nowMs()
  const asked = askedMs === undefined ? undefined : askedMs - offsetMs
  const { sinceMs, maxError, hourSinceMs, hourMaxError, rejected, nearest } = mergedTop(reports, filter, limit, asked)
  const timeOf = (ms: number): string => new Date(offsetMs + ms).toISOString()
  // Both clocks tick in fractions of a millisecond of their own. In whole seconds a time is the same whenever it is asked for.
  const secondOf = (ms: number): string => timeOf(ms).replace(/\.\d+Z$/, 'Z')
  const hasAll = reports.length === parts.workers
  return {
    since: timeOf(Math.max(sinceMs, startedMs)),
    max_error: maxError,
    complete: hasAll && lastDeathMs() < sinceMs,
    hour: { since: timeOf(Math.max(hourSinceMs, startedMs)), max_error: hourMaxError, complete: hasAll && lastDeathMs() < hourSinceMs },
    rejected: rejected.map(({ policy, rule, values, count, hourCount, firstMs, lastMs }) => {
      // Policies in shadow mode reject nothing.
      return { policy, rule, mode: 'enforce', values, count, hour_count: hourCount, first_at: secondOf(firstMs), last_at: secondOf(lastMs) }
    }),
    nearest: nearest.map(
      ({ policy, rule, mode, values, kind, period = null, unit, level, remaining, limit: most, reserved, leftPercent }) => {
        const inFlight = reserved === undefined ? {} : { reserved }
        return { policy, rule, mode, values, kind, period, unit, level, remaining, limit: most, ...inFlight, left_percent: leftPercent }
      },
    ),
  }
}
