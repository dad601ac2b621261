import type { CallerDigest } from '../../engine/decide-options.ts'
import type { Decision, Refused } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { CallerIds, type KnownRule, type ShownCaller, ValueTexts, valuesAt } from '../../top/caller-ids.ts'
import { StreamSummary } from '../../top/stream-summary.ts'

/** Outcomes of one rule. The times are NaN until it rejects, or would. */
export interface RuleCounts {
  rejected: number
  wouldReject: number
  firstMs: number
  lastMs: number
}

/** Outcomes of the requests by one bundle. */
export class BundleCounts {
  allowed = 0
  rejected = 0
  /** Rejected requests that would wait first, and might be allowed then. */
  wouldWait = 0
  /** Requests that a shadow policy would reject; they also count as allowed. */
  wouldReject = 0
  /** Requests that cannot be decided, by reason; the service answers most of them with 400. */
  readonly refused = new Map<Reason, number>()
  /** Requests without a value that a rule needs, by key. */
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

  /** `rejectedValues` are those of the limit keys of the rule that rejects. `valuesOf` reads those of another rule. */
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
      if (decision.wait !== undefined) this.wouldWait++
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

/** The verdict of one bundle on a request. */
export interface ReplayVerdict {
  readonly action: 'allow' | 'reject' | 'refuse'
  /** The rule that rejected, and the values of its limit keys in `values`. */
  readonly rule: PlanRule | undefined
  readonly values: readonly string[]
}

export interface ChangedCaller extends ShownCaller {
  newlyRejected: number
  newlyAllowed: number
}

/** The requests that one bundle allows and the other rejects. */
export class Difference {
  newlyRejected = 0
  newlyAllowed = 0
  readonly #rejected: CallerCounts
  readonly #allowed: CallerCounts

  constructor(hashKey: readonly [number, number], callerDigest: CallerDigest) {
    this.#rejected = new CallerCounts(hashKey, callerDigest)
    this.#allowed = new CallerCounts(hashKey, callerDigest)
  }

  newlyReject({ rule, values }: ReplayVerdict): void {
    this.newlyRejected++
    this.#rejected.add(rule!, values)
  }

  /** `rule` and `values` are those of the bundle that rejects. */
  newlyAllow({ rule, values }: ReplayVerdict): void {
    this.newlyAllowed++
    this.#allowed.add(rule!, values)
  }

  get maxError(): number {
    return Math.max(this.#rejected.maxError, this.#allowed.maxError)
  }

  /** Returns callers of the rules that rejected, in either bundle, those with the largest change first. */
  callers(): ChangedCaller[] {
    const byId = new Map<string, ChangedCaller>()
    for (const { id, count, ...caller } of this.#rejected.list()) byId.set(id, { ...caller, newlyRejected: count, newlyAllowed: 0 })
    for (const { id, count, ...caller } of this.#allowed.list()) {
      const known = byId.get(id)
      if (known === undefined) byId.set(id, { ...caller, newlyRejected: 0, newlyAllowed: count })
      else known.newlyAllowed = count
    }
    return [...byId.values()].sort((a, b) => b.newlyRejected + b.newlyAllowed - a.newlyRejected - a.newlyAllowed)
  }
}

/** Bound on callers of all rules together. Up to this number, all counts are exact. */
const MAX_CALLERS = 16_384

export interface CallerCount extends ShownCaller {
  /** Equal for the same caller of a rule with the same name, in all counts with the same hash key. */
  readonly id: string
  readonly count: number
}

/** Counts how often something happened to each caller of each rule, in memory of a fixed size. */
class CallerCounts {
  readonly #ids: CallerIds
  readonly #summary = new StreamSummary(MAX_CALLERS)
  readonly #texts: ValueTexts
  /** Rules by slot of the summary. */
  readonly #rules: KnownRule[] = []

  constructor(hashKey: readonly [number, number], callerDigest: CallerDigest) {
    this.#ids = new CallerIds(hashKey)
    this.#texts = new ValueTexts(MAX_CALLERS, callerDigest)
  }

  add(rule: PlanRule, values: readonly string[]): void {
    const known = this.#ids.identify(rule, values, 0)
    const slot = this.#summary.add(this.#ids.low, this.#ids.high)
    if (!this.#summary.isNew) return
    this.#rules[slot] = known
    this.#texts.write(slot, known, values, 0)
  }

  /** The most by which a count may be too high; none is too low. */
  get maxError(): number {
    return this.#summary.leastCount
  }

  /** Returns callers by count, the highest first; equal ones by slot, that is by first appearance while all counts are exact. */
  list(): CallerCount[] {
    const summary = this.#summary
    const texts = this.#texts.packed(Array.from(this.#rules.keys()))
    const callers = this.#rules.map(({ policy, rule, limitKeys }, slot): CallerCount => {
      const id = `${summary.lows[slot]}:${summary.highs[slot]}`
      return { id, policy, rule, values: valuesAt(texts, slot, limitKeys), count: summary.countAt(slot) }
    })
    return callers.sort((a, b) => b.count - a.count)
  }
}
