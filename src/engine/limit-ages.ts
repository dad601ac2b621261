import { isSameLimit } from '../limiter/algorithms/algorithms.ts'
import type { Limit } from '../limiter/limit.ts'
import type { NamedLimit } from '../policy/compile.ts'

/** Since when each counter has its current limit. Before that, it was refilled by the previous limit. */
export interface LimitAges {
  /** By the plan's counter index. */
  readonly sincesMs: Float64Array
  readonly byIdentity: ReadonlyMap<string, LimitAge>
}

interface LimitAge {
  readonly limit: Limit
  readonly sinceMs: number
}

/** In the order of a plan's counters. A counter that an earlier plan had with the same limit keeps its time. */
export function limitAges(counters: readonly NamedLimit[], nowMs: number, previous: LimitAges | undefined): LimitAges {
  const sincesMs = new Float64Array(counters.length)
  const byIdentity = new Map<string, LimitAge>()
  for (const [index, { name, limit }] of counters.entries()) {
    const before = previous?.byIdentity.get(name)
    const sinceMs = before !== undefined && isSameLimit(before.limit, limit) ? before.sinceMs : nowMs
    sincesMs[index] = sinceMs
    byIdentity.set(name, { limit, sinceMs })
  }
  return { sincesMs, byIdentity }
}
