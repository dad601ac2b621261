import type { TopAsk } from '../../admin/api/top-endpoint.ts'
import type { Clock } from '../../clock.ts'
import { mergedTop } from '../../top/merged-top.ts'
import type { TopReport } from '../../top/top-callers.ts'
import type { TopFilter } from '../../top/top-filter.ts'

/** What the API responds. */
export interface TopResponse {
  readonly since: string
  readonly max_error: number
  readonly rejected: readonly object[]
  readonly nearest: readonly object[]
}

/** Asks all workers, and merges what those know that answer in time. */
export async function answerTop(
  { limit, ...filter }: TopAsk,
  askWorkers: (filter: TopFilter) => Promise<readonly TopReport[]>,
  clock: Clock,
  startedMs: number,
): Promise<TopResponse> {
  const reports = await askWorkers(filter)
  const { sinceMs, maxError, rejected, nearest } = mergedTop(reports, filter, limit)
  const ageMs = clock.nowMs() - Math.max(sinceMs, startedMs)
  const since = new Date(clock.wallMs() - ageMs).toISOString()
  return { since, max_error: maxError, rejected, nearest }
}
