import { isCaller } from '../policy/caller-match.ts'
import { type ShownCaller, valuesAt } from './caller-ids.ts'
import type { NearCaller } from './near-callers.ts'
import { PERIOD_MS, PERIODS_OF_AN_HOUR, periodAt, type RejectedPeriod } from './rejected-callers.ts'
import type { TopReport } from './top-callers.ts'
import { isRuleAsked, type TopFilter } from './top-filter.ts'

/** The callers of all threads, worst first. Two reports of the same callers have them in the same order. */
export interface Top {
  /** Start of the period over which `count` counts, on the monotonic clock; -Infinity if no thread answered. */
  readonly sinceMs: number
  /**
   * No `count` is too low, and none is too high by more than this. A caller with a count of 0, or without one, was rejected at most this often since then.
   * Counts since a time before the last two periods may also be too low by it.
   */
  readonly maxError: number
  /** Start of the period over which `hourCount` counts, and the most by which it can be too high or too low. */
  readonly hourSinceMs: number
  readonly hourMaxError: number
  readonly rejected: readonly RejectCount[]
  readonly nearest: readonly NearestCaller[]
}

interface RejectCount extends ShownCaller {
  readonly count: number
  readonly hourCount: number
  /** On the monotonic clock, within the hour. If `hourMaxError` is above 0, there may have been earlier and later rejects. */
  readonly firstMs: number
  readonly lastMs: number
}

interface NearestCaller extends ShownCaller, Pick<NearCaller, 'mode' | 'kind' | 'period' | 'unit' | 'limit' | 'reserved'> {
  /** Remaining amount, with fractions; negative if settlements left a debt. */
  readonly level: number
  /** The same, rounded down and never negative. */
  readonly remaining: number
  /** Remaining share of the limit, rounded down. */
  readonly leftPercent: number
}

/**
 * Adds up the reports of all threads, and keeps the first `limit` callers of each list. `count` counts from the period of `askedSinceMs` on, within the hour;
 * by default the current period and the one before.
 */
export function mergedTop(reports: readonly TopReport[], filter: TopFilter, limit: number, askedSinceMs?: number): Top {
  // One thread may have answered just before a period began, and another just after.
  const current = Math.max(...reports.map(({ period }) => period))
  const oldest = current - PERIODS_OF_AN_HOUR
  const oldestAsked = askedSinceMs === undefined ? current - 1 : Math.min(current, Math.max(oldest, periodAt(askedSinceMs)))
  const oldestRecent = Math.max(oldestAsked, current - 1)
  const periods = reports.flatMap(({ rejected }) => rejected).filter(({ number }) => number >= oldest)
  const recent = periods.filter(({ number }) => number >= oldestRecent)
  const merged = new MergedRejects(filter, errorOf(recent))
  for (const period of recent) merged.addRecent(period)
  for (const period of periods) if (period.number < oldestRecent) merged.addOlder(period, period.number >= oldestAsked)
  return {
    sinceMs: oldestAsked * PERIOD_MS,
    maxError: errorOf(periods.filter(({ number }) => number >= oldestAsked)),
    hourSinceMs: oldest * PERIOD_MS,
    hourMaxError: errorOf(periods),
    rejected: merged.worst(limit),
    nearest: nearestFirst(reports.flatMap((report) => report.nearest)).slice(0, limit),
  }
}

function errorOf(periods: readonly RejectedPeriod[]): number {
  return periods.reduce((sum, { maxError }) => sum + maxError, 0)
}

interface MergedCount {
  /** Where its values are. */
  readonly period: RejectedPeriod
  readonly row: number
  /** In the last two periods. */
  recent: number
  /** In other periods that were asked for. */
  earlier: number
  /** In the rest of the hour. */
  older: number
  firstMs: number
  lastMs: number
}

class MergedRejects {
  readonly #filter: TopFilter
  readonly #maxError: number
  readonly #found = new Map<string, MergedCount>()

  constructor(filter: TopFilter, maxError: number) {
    this.#filter = filter
    this.#maxError = maxError
  }

  /** A caller without a row in a recent period may have been rejected as often as that period's error, so each sum assumes that. */
  addRecent(period: RejectedPeriod): void {
    for (const [merged, count] of this.#rowsOf(period)) {
      if (merged.recent === 0) merged.recent = this.#maxError
      merged.recent += count - period.maxError
    }
  }

  /** In older periods this would add up to more than the rejects of most callers, so only what was counted is added. */
  addOlder(period: RejectedPeriod, isAsked: boolean): void {
    for (const [merged, count] of this.#rowsOf(period)) {
      if (isAsked) merged.earlier += count
      else merged.older += count
    }
  }

  /** Those of the last minutes come first. Values are read for the first callers only, and for those that have the same counts as the last of these. */
  worst(limit: number): RejectCount[] {
    const sorted = [...this.#found.values()].sort(byCounts)
    const last = sorted[limit - 1]
    const first = last === undefined ? sorted : sorted.slice(0, sorted.findLastIndex((merged) => byCounts(merged, last) === 0) + 1)
    return first
      .map(shownCount)
      .sort((a, b) => b.count - a.count || b.hourCount - a.hourCount || byName(a, b))
      .slice(0, limit)
  }

  *#rowsOf(period: RejectedPeriod): Generator<[MergedCount, number]> {
    const { lows, highs, counts, firstsMs, lastsMs, rules, ruleIndexes, texts } = period
    const filter = this.#filter
    const asked = rules.map((rule) => isRuleAsked(filter, rule))
    for (const [row, count] of counts.entries()) {
      const index = ruleIndexes[row]!
      if (!asked[index]) continue
      if (filter.caller !== undefined && !isCaller(filter.caller, valuesAt(texts, row, rules[index]!.limitKeys))) continue
      const [id, firstMs, lastMs] = [`${lows[row]}:${highs[row]}`, firstsMs[row]!, lastsMs[row]!]
      const merged = this.#found.get(id) ?? { period, row, recent: 0, earlier: 0, older: 0, firstMs, lastMs }
      this.#found.set(id, merged)
      merged.firstMs = Math.min(merged.firstMs, firstMs)
      merged.lastMs = Math.max(merged.lastMs, lastMs)
      yield [merged, count]
    }
  }
}

function byCounts(a: MergedCount, b: MergedCount): number {
  return countOf(b) - countOf(a) || b.older - a.older
}

function countOf({ recent, earlier }: MergedCount): number {
  return recent + earlier
}

function shownCount(merged: MergedCount): RejectCount {
  const { period, row, older, firstMs, lastMs } = merged
  const count = countOf(merged)
  const { policy, rule, limitKeys } = period.rules[period.ruleIndexes[row]!]!
  return { policy, rule, values: valuesAt(period.texts, row, limitKeys), count, hourCount: count + older, firstMs, lastMs }
}

/**
 * Sorts enforcing policies before those in shadow, and callers by their remaining share in whole percents, so that callers whose shares change a little
 * stay where they are. Threads that noted the same caller read the same counters at nearly the same time, so one entry for each caller is enough.
 */
function nearestFirst(callers: readonly NearCaller[]): NearestCaller[] {
  const byId = new Map<string, NearCaller>()
  for (const caller of callers) {
    const known = byId.get(caller.id)
    if (known === undefined || caller.level * known.limit < known.level * caller.limit) byId.set(caller.id, caller)
  }
  const shown = Array.from(byId.values(), ({ id: _, ...caller }): NearestCaller => {
    const remaining = Math.max(0, Math.floor(caller.level))
    return { ...caller, remaining, leftPercent: Math.floor((100 * remaining) / caller.limit) }
  })
  return shown.sort((a, b) => Number(a.mode === 'shadow') - Number(b.mode === 'shadow') || a.leftPercent - b.leftPercent || byName(a, b))
}

function byName(a: ShownCaller, b: ShownCaller): number {
  return compareTexts(a.policy, b.policy) || compareTexts(a.rule, b.rule) || compareTexts(valuesText(a), valuesText(b))
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function valuesText({ values }: ShownCaller): string {
  return Object.values(values).join('\n')
}
