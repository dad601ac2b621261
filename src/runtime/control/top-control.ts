import type { TopAsk } from '../../admin/api/top-endpoint.ts'
import type { TopJson } from '../../admin/api/types.ts'
import type { Clock } from '../../clock.ts'
import { mergedTop } from '../../top/merged-top.ts'
import type { TopReport } from '../../top/top-callers.ts'
import type { TopFilter } from '../../top/top-filter.ts'

export interface TopControlParts {
  readonly clock: Clock
  readonly startedMs: number
  readonly workers: number
  /** Returns the reports of those that answer in time. */
  readonly askWorkers: (filter: TopFilter) => Promise<readonly TopReport[]>
  /** A worker that dies takes its counts along. */
  readonly lastDeathMs: () => number
}

/** Asks all workers, and merges what those know that answer in time. */
export async function answerTop({ limit, ...filter }: TopAsk, parts: TopControlParts): Promise<TopJson> {
  const { clock, startedMs } = parts
  const reports = await parts.askWorkers(filter)
  const { sinceMs, maxError, rejected, nearest } = mergedTop(reports, filter, limit)
  const ageMs = clock.nowMs() - Math.max(sinceMs, startedMs)
  const since = new Date(clock.wallMs() - ageMs).toISOString()
  const complete = reports.length === parts.workers && parts.lastDeathMs() < sinceMs
  return { since, max_error: maxError, complete, rejected, nearest }
}
