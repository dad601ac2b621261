import type { CallerDigest } from '../../engine/caller-digest.ts'
import type { Decision, Refused } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { CallerCounts } from './caller-counts.ts'

/** What a rule did. */
export interface RuleCounts {
  rejected: number
  wouldReject: number
  firstMs: number
  lastMs: number
}

/** What one bundle made of the requests. */
export class BundleCounts {
  allowed = 0
  rejected = 0
  /** Requests that a shadow policy would reject; they are allowed. */
  wouldReject = 0
  /** By reason: requests that get a 400, because they cannot be decided. */
  readonly refused = new Map<Reason, number>()
  /** By key: requests without a value for it, where a rule needs one. */
  readonly missing = new Map<string, number>()
  readonly rules: ReadonlyMap<PlanRule, RuleCounts>
  readonly callers: CallerCounts
  readonly wouldBeCallers: CallerCounts

  constructor(plan: Plan, hashKey: readonly [number, number], callerDigest: CallerDigest) {
    const rules = plan.policies.flatMap((policy) => policy.rules)
    this.rules = new Map(rules.map((rule) => [rule, { rejected: 0, wouldReject: 0, firstMs: Number.NaN, lastMs: Number.NaN }]))
    this.callers = new CallerCounts(hashKey, callerDigest)
    this.wouldBeCallers = new CallerCounts(hashKey, callerDigest)
  }

  /** `rejectedValues`: of the limit keys of the rule that rejects. `valuesOf` reads those of another rule. */
  add(
    decision: Exclude<Decision, Refused>,
    timeMs: number,
    rejectedValues: readonly string[],
    valuesOf: (rule: PlanRule) => string[],
  ): void {
    const { missingKeys, wouldRejects } = decision
    for (let i = 0; i < missingKeys.length; i++) increment(this.missing, missingKeys[i]!)
    if (decision.action === 'reject') {
      this.rejected++
      const rule = decision.rule!
      this.#ruleAt(rule, timeMs).rejected++
      this.callers.add(rule, rejectedValues)
      return
    }
    this.allowed++
    if (wouldRejects.length === 0) return
    this.wouldReject++
    for (const { rule } of wouldRejects) {
      this.#ruleAt(rule, timeMs).wouldReject++
      this.wouldBeCallers.add(rule, valuesOf(rule))
    }
  }

  addRefused(reason: Reason): void {
    increment(this.refused, reason)
  }

  #ruleAt(rule: PlanRule, timeMs: number): RuleCounts {
    const counts = this.rules.get(rule)!
    if (Number.isNaN(counts.firstMs)) counts.firstMs = timeMs
    counts.lastMs = timeMs
    return counts
  }
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
