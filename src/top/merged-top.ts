import type { RuleName } from './caller-ids.ts'
import type { NearCaller } from './near-callers.ts'
import { PERIOD_MS, type RejectedCaller, type RejectedPeriod } from './rejected-callers.ts'
import type { TopReport } from './top-callers.ts'

/** Of all threads, worst first. */
export interface Top {
  /** Rejects are counted since then, on the monotonic clock; -Infinity where no thread answered. */
  readonly sinceMs: number
  /** No count is too low, and none is too high by more than this. Who is not listed was rejected at most as often as the last who could be. */
  readonly maxError: number
  readonly rejected: readonly (ShownCaller & { readonly count: number })[]
  readonly nearest: readonly (ShownCaller & { readonly remaining: number; readonly limit: number })[]
}

export interface ShownCaller extends Pick<RuleName, 'policy' | 'rule'> {
  readonly values: Readonly<Record<string, string>>
}

/** Adds up what the threads know, and keeps the first `limit` callers of each list. */
export function mergedTop(reports: readonly TopReport[], limit: number): Top {
  // A thread may have answered before a period began that another one is in.
  const oldest = Math.max(...reports.map(({ period }) => period)) - 1
  const periods = reports.flatMap(({ rejected }) => rejected).filter(({ number }) => number >= oldest)
  const maxError = sum(periods.map((period) => period.maxError))
  const rejected = [...mergedCounts(periods, maxError)].sort((a, b) => b.count - a.count).slice(0, limit)
  const nearest = nearestFirst(reports.flatMap((report) => report.nearest)).slice(0, limit)
  return {
    sinceMs: oldest * PERIOD_MS,
    maxError,
    rejected: rejected.map(({ caller, count }) => ({ ...shown(caller), count })),
    nearest: nearest.map((caller) => ({ ...shown(caller), remaining: Math.max(0, Math.floor(caller.level)), limit: caller.limit })),
  }
}

/** A caller that is not counted in a period may have been rejected there as often as the smallest count says. */
function* mergedCounts(periods: readonly RejectedPeriod[], maxError: number): Generator<{ caller: RejectedCaller; count: number }> {
  const found = new Map<string, { caller: RejectedCaller; count: number }>()
  for (const { callers, maxError: least } of periods) {
    for (const caller of callers) {
      const known = found.get(caller.id)
      if (known === undefined) found.set(caller.id, { caller, count: caller.count + maxError - least })
      else known.count += caller.count - least
    }
  }
  yield* found.values()
}

/** By the share that is left. Threads that noted the same caller looked at the same counters. */
function nearestFirst(callers: readonly NearCaller[]): NearCaller[] {
  const byId = new Map(callers.map((caller) => [caller.id, caller]))
  return [...byId.values()].sort((a, b) => a.level * b.limit - b.level * a.limit)
}

function shown({ policy, rule, limitKeys, values }: RejectedCaller | NearCaller): ShownCaller {
  return { policy, rule, values: Object.fromEntries(limitKeys.map((key, k) => [key, values[k]!])) }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
