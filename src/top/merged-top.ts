import type { NearCaller } from './near-callers.ts'
import { PERIOD_MS, type RejectedPeriod } from './rejected-callers.ts'
import type { ShownCaller } from './shown-caller.ts'
import type { TopReport } from './top-callers.ts'
import { isAsked, type TopFilter } from './top-filter.ts'
import { valuesAt } from './value-texts.ts'

/** Of all threads, worst first. */
export interface Top {
  /** Rejects are counted since then, on the monotonic clock; -Infinity where no thread answered. */
  readonly sinceMs: number
  /** No count is too low, and none is too high by more than this. Who has no count was rejected at most as often. */
  readonly maxError: number
  readonly rejected: readonly (ShownCaller & { readonly count: number })[]
  readonly nearest: readonly (ShownCaller & Pick<NearCaller, 'kind' | 'limit'> & { readonly remaining: number })[]
}

/** Adds up what the threads know, and keeps the first `limit` callers of each list. */
export function mergedTop(reports: readonly TopReport[], filter: TopFilter, limit: number): Top {
  // A thread may have answered before a period began that another one is in.
  const oldest = Math.max(...reports.map(({ period }) => period)) - 1
  const periods = reports.flatMap(({ rejected }) => rejected).filter(({ number }) => number >= oldest)
  const maxError = periods.reduce((sum, period) => sum + period.maxError, 0)
  const rejected = mergedCounts(periods, filter, maxError).sort((a, b) => b.count - a.count)
  const nearest = nearestFirst(reports.flatMap((report) => report.nearest))
  return {
    sinceMs: oldest * PERIOD_MS,
    maxError,
    rejected: rejected.slice(0, limit).map(({ period, row, count }) => ({ ...shownAt(period, row), count })),
    nearest: nearest.slice(0, limit).map(({ policy, rule, values, kind, level, limit: most }) => {
      return { policy, rule, values, kind, remaining: Math.max(0, Math.floor(level)), limit: most }
    }),
  }
}

interface MergedCount {
  readonly period: RejectedPeriod
  readonly row: number
  count: number
}

/** A caller that is not counted in a period may have been rejected there as often as the smallest count says. */
function mergedCounts(periods: readonly RejectedPeriod[], filter: TopFilter, maxError: number): MergedCount[] {
  const found = new Map<string, MergedCount>()
  for (const period of periods) {
    const { lows, highs, counts, rules, ruleIndexes, maxError: least } = period
    const asked = rules.map((rule) => isAsked(filter, rule))
    for (const [row, count] of counts.entries()) {
      if (!asked[ruleIndexes[row]!]) continue
      const id = `${lows[row]}:${highs[row]}`
      const known = found.get(id)
      if (known === undefined) found.set(id, { period, row, count: count + maxError - least })
      else known.count += count - least
    }
  }
  return [...found.values()]
}

function shownAt({ rules, ruleIndexes, texts }: RejectedPeriod, row: number): ShownCaller {
  const { policy, rule, limitKeys } = rules[ruleIndexes[row]!]!
  return { policy, rule, values: valuesAt(texts, row, limitKeys) }
}

/** By the share that is left. Threads that noted the same caller looked at the same counters, one of them maybe a bit earlier. */
function nearestFirst(callers: readonly NearCaller[]): NearCaller[] {
  const sorted = [...callers].sort((a, b) => a.level * b.limit - b.level * a.limit)
  const seen = new Set<string>()
  return sorted.filter(({ id }) => !seen.has(id) && seen.add(id))
}
