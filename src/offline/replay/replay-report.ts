import type { PlanRule } from '../../policy/plan.ts'
import type { BundleReplay } from './bundle-replay.ts'
import type { BundleCounts, CallerCount, Difference, RuleCounts } from './counts.ts'
import type { Replay } from './replay.ts'

type Values = Readonly<Record<string, string>>

/** The report that `--json` prints. */
export interface ReplayReport {
  readonly requests: number
  readonly unreadable: number
  /** Absent if 0. */
  readonly out_of_order?: number
  readonly from: string
  readonly to: string
  readonly bundles: readonly ReplayedBundleReport[]
  readonly difference?: DifferenceReport
}

export interface ReplayedBundleReport {
  readonly file: string
  readonly bundle_version: string
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
  /** Rejected requests that would wait first (`wait_seconds`), and might be allowed then; absent if 0. */
  readonly would_wait?: number
  /** Counts by reason; absent if there are none. */
  readonly refused?: Readonly<Record<string, number>>
  /** Requests that lack a value which a rule needs, by key. */
  readonly missing: Readonly<Record<string, number>>
  /** Most by which a caller's count may be too high; absent if all counts are exact. */
  readonly max_error?: number
  /** Callers whose counters were dropped because the store was too small; absent if 0. */
  readonly forced_evictions?: number
  /** Ordered by rejects, the most first. */
  readonly rules: readonly RuleReport[]
}

export interface RuleReport {
  readonly policy: string
  readonly rule: string
  readonly rejected: number
  readonly would_reject: number
  /** Times of the first and the last request that the rule rejects or would reject; null if there is none. */
  readonly first_at: string | null
  readonly last_at: string | null
  readonly callers: readonly CallerReport[]
}

export interface CallerReport {
  readonly values: Values
  readonly rejected: number
  /** Present only for rules of shadow policies. */
  readonly would_reject?: number
}

export interface DifferenceReport {
  readonly newly_rejected: number
  readonly newly_allowed: number
  readonly max_error?: number
  readonly callers: readonly ChangedCallerReport[]
}

export interface ChangedCallerReport {
  readonly policy: string
  readonly rule: string
  readonly values: Values
  readonly newly_rejected: number
  readonly newly_allowed: number
}

/** Must be called after at least one request. */
export function replayReport(replay: Replay, unreadable: number): ReplayReport {
  const { requests, outOfOrder, firstMs, lastMs, replays, difference } = replay
  return {
    requests,
    unreadable,
    ...(outOfOrder > 0 && { out_of_order: outOfOrder }),
    from: timeText(firstMs),
    to: timeText(lastMs),
    bundles: replays.map(bundleReport),
    ...(difference !== undefined && { difference: differenceReport(difference) }),
  }
}

function bundleReport({ bundle, counts, forcedEvictions }: BundleReplay): ReplayedBundleReport {
  const { allowed, rejected, wouldReject, wouldWait, refused, missing } = counts
  const maxError = Math.max(counts.callers.maxError, counts.wouldBeCallers.maxError)
  const callers = callersByRule(counts)
  const rules = [...counts.rules].map(([rule, own]) => ruleReport(rule, own, callers.get(ruleId(rule.policy.id, rule.name)) ?? []))
  return {
    file: bundle.file,
    bundle_version: String(bundle.plan.version),
    allowed,
    rejected,
    would_reject: wouldReject,
    ...(wouldWait > 0 && { would_wait: wouldWait }),
    ...(refused.size > 0 && { refused: Object.fromEntries(refused) }),
    missing: Object.fromEntries(missing),
    ...(maxError > 0 && { max_error: maxError }),
    ...(forcedEvictions > 0 && { forced_evictions: forcedEvictions }),
    rules: rules.sort((a, b) => b.rejected - a.rejected || b.would_reject - a.would_reject),
  }
}

function callersByRule({ callers, wouldBeCallers }: BundleCounts): Map<string, CallerReport[]> {
  const found = new Map<string, CallerReport[]>()
  const add = ({ policy, rule }: CallerCount, caller: CallerReport): void => {
    const id = ruleId(policy, rule)
    const known = found.get(id)
    if (known === undefined) found.set(id, [caller])
    else known.push(caller)
  }
  for (const caller of callers.list()) add(caller, { values: caller.values, rejected: caller.count })
  for (const caller of wouldBeCallers.list()) add(caller, { values: caller.values, rejected: 0, would_reject: caller.count })
  return found
}

function ruleId(policy: string, rule: string): string {
  return JSON.stringify([policy, rule])
}

function ruleReport(rule: PlanRule, { rejected, wouldReject, firstMs, lastMs }: RuleCounts, callers: readonly CallerReport[]): RuleReport {
  return {
    policy: rule.policy.id,
    rule: rule.name,
    rejected,
    would_reject: wouldReject,
    first_at: Number.isNaN(firstMs) ? null : timeText(firstMs),
    last_at: Number.isNaN(lastMs) ? null : timeText(lastMs),
    callers,
  }
}

function differenceReport(difference: Difference): DifferenceReport {
  const { newlyRejected, newlyAllowed, maxError } = difference
  return {
    newly_rejected: newlyRejected,
    newly_allowed: newlyAllowed,
    ...(maxError > 0 && { max_error: maxError }),
    callers: difference.callers().map(({ policy, rule, values, newlyRejected: rejects, newlyAllowed: allows }) => {
      return { policy, rule, values, newly_rejected: rejects, newly_allowed: allows }
    }),
  }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
