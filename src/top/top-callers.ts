import type { ActivePlan } from '../engine/active-plan.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Group } from '../engine/decision.ts'
import type { CallerWatch } from '../engine/watchers.ts'
import type { Plan, PlanRule } from '../policy/plan.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { CallerIds, isAsked, type ShownCaller, type TopFilter, valuesAt } from './caller-ids.ts'
import { type NearCaller, NearCallers } from './near-callers.ts'
import { PERIOD_MS, periodAt, RejectedCallers, type RejectedPeriod } from './rejected-callers.ts'

export interface TopCallersParts {
  readonly store: Pick<CounterStore, 'locatorsOf' | 'checkAll'>
  /** Shared by all threads. */
  readonly hashKey: readonly [number, number]
  /** Digests credentials. */
  readonly callerDigest: CallerDigest
}

/** The callers of one thread that are rejected most, and those nearest to a limit. */
export interface TopReport {
  /** Number of the current period. */
  readonly period: number
  readonly rejected: readonly RejectedPeriod[]
  readonly nearest: readonly NearCaller[]
}

/** Watches the callers of one thread, in memory of a fixed size. */
export class TopCallers implements CallerWatch {
  readonly #rejected: RejectedCallers
  readonly #near: NearCallers

  constructor({ store, hashKey, callerDigest }: TopCallersParts) {
    const ids = new CallerIds(hashKey)
    this.#rejected = new RejectedCallers(ids, callerDigest)
    this.#near = new NearCallers(store, ids, callerDigest)
  }

  onReject(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void {
    this.#rejected.add(rule, values, from, nowMs)
  }

  onLevels(group: Group, plan: Plan, nowMs: number): void {
    this.#near.note(group, plan, nowMs)
  }

  /** Reports rejects unfiltered, and the callers nearest to a limit that match the filter: none if the store takes longer than `timeout`. */
  async report(
    filter: TopFilter,
    active: ActivePlan | undefined,
    nowMs: number,
    wallMs: number,
    timeout: Promise<unknown>,
  ): Promise<TopReport> {
    const rejected = this.#rejected.read(nowMs)
    const nearest = await Promise.race([this.#near.look(filter, active, nowMs, wallMs), timeout.then(() => [])])
    return { period: periodAt(nowMs), rejected, nearest }
  }

  /** Forgets old entries even if no requests or reports come any more. */
  sweep(nowMs: number): void {
    this.#rejected.turnTo(nowMs)
    this.#near.sweep(nowMs)
  }
}

/** The callers of all threads, worst first. */
export interface Top {
  /** Start of the period over which rejects are counted, on the monotonic clock; -Infinity if no thread answered. */
  readonly sinceMs: number
  /** No count is too low, and none is too high by more than this. A caller without a count was rejected at most this often. */
  readonly maxError: number
  readonly rejected: readonly (ShownCaller & { readonly count: number })[]
  readonly nearest: readonly (ShownCaller & Pick<NearCaller, 'kind' | 'limit'> & { readonly remaining: number })[]
}

/** Adds up the reports of all threads, and keeps the first `limit` callers of each list. */
export function mergedTop(reports: readonly TopReport[], filter: TopFilter, limit: number): Top {
  // One thread may have answered just before a period began, and another just after.
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

/** A caller without a count in a period may have been rejected as often as that period's smallest count, so each sum assumes that. */
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

/**
 * Sorts by the remaining share. Threads that noted the same caller read the same counters at nearly the same time, so one entry for each caller is enough.
 */
function nearestFirst(callers: readonly NearCaller[]): NearCaller[] {
  const sorted = [...callers].sort((a, b) => a.level * b.limit - b.level * a.limit)
  const seen = new Set<string>()
  return sorted.filter(({ id }) => !seen.has(id) && seen.add(id))
}
