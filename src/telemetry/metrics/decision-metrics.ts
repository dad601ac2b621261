import type { Allowed, Rejected, WouldReject } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { type CallerVerdict, isVerified } from '../../request/caller.ts'
import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/** Metrics that are counted on every decision. */
export class DecisionMetrics {
  readonly #decisions: CounterFamily
  readonly #covered: CounterFamily
  readonly #rejects: CounterFamily
  readonly #missingDescriptors: CounterFamily
  readonly #wouldRejects: CounterFamily
  readonly #refused: CounterFamily
  readonly #wouldRefuse: CounterFamily
  readonly #callers: CounterFamily
  readonly #durations: HistogramSeries
  /** The usual series of policies, found without looking up each label, and those looked up last. */
  readonly #ofPolicies = new WeakMap<PlanPolicy, PolicySeries>()
  #lastPolicy: PolicySeries | undefined
  /** The series of a rule's latest reject, found in the same way. */
  readonly #lastRejects = new WeakMap<PlanRule, RejectSeries>()
  readonly #passWithoutPolicy: Series
  #verified: Series | undefined

  constructor(memory: MetricMemory) {
    this.#decisions = new CounterFamily(memory, 'edge_decisions_total')
    this.#covered = new CounterFamily(memory, 'edge_policy_requests_total')
    this.#rejects = new CounterFamily(memory, 'edge_rejects_total')
    this.#missingDescriptors = new CounterFamily(memory, 'edge_descriptor_missing_total')
    this.#wouldRejects = new CounterFamily(memory, 'edge_would_reject_total')
    this.#refused = new CounterFamily(memory, 'edge_refused_requests_total')
    this.#wouldRefuse = new CounterFamily(memory, 'edge_would_refuse_total')
    this.#callers = new CounterFamily(memory, 'edge_callers_total')
    this.#durations = new Histogram(memory, 'edge_decision_duration_seconds').series()
    this.#passWithoutPolicy = this.#decisions.series('allow', 'all_rules_passed', 'none', 'none')
  }

  count(decision: Allowed | Rejected, durationMs: number): void {
    if (decision.action === 'reject') this.#countReject(decision)
    else this.#passSeries(decision).count++
    this.#countCovered(decision)
    this.#durations.observe(durationMs / 1000)
    for (const key of decision.missingKeys) this.#missingDescriptors.series(key).count++
    for (const { rule, reason } of decision.wouldRejects) this.#wouldReject(rule, reason).count++
  }

  countRefused(reason: Reason): void {
    this.#refused.series(reason).count++
  }

  /** Counts a request that `callers` in shadow mode would refuse. */
  countWouldRefuse(reason: Reason): void {
    this.#wouldRefuse.series(reason).count++
  }

  countCaller(caller: CallerVerdict): void {
    if (!isVerified(caller)) {
      this.#callers.series(caller.problem).count++
      return
    }
    this.#verified ??= this.#callers.series('verified')
    this.#verified.count++
  }

  /** A shadow policy is asked only about requests that the enforcing ones allow. */
  #countCovered({ action, coveredBy }: Allowed | Rejected): void {
    for (let i = 0; i < coveredBy.length; i++) {
      const policy = coveredBy[i]!
      if (action === 'allow' || !policy.isShadow) this.#of(policy).covered.count++
    }
  }

  #countReject({ reason, rule }: Rejected): void {
    // Most rules have one reason to reject. An LLM rule has two, and an override may block.
    let series = this.#lastRejects.get(rule!)
    if (series === undefined || series.reason !== reason) {
      series = this.#rejectSeries(rule!, reason)
      this.#lastRejects.set(rule!, series)
    }
    series.decisions.count++
    series.rejects.count++
  }

  #rejectSeries({ policy, name }: PlanRule, reason: Rejected['reason']): RejectSeries {
    return { reason, decisions: this.#series('reject', reason, policy), rejects: this.#rejects.series(policy.id, name, reason) }
  }

  /** What a shadow policy would do takes no allow away from the policy that enforces. */
  #passSeries({ reason, policy, limit }: Allowed): Series {
    if (limit !== undefined) return this.#passesOf(limit.rule.policy)
    if (policy === undefined) return this.#passWithoutPolicy
    return reason === 'all_rules_passed' ? this.#passesOf(policy) : this.#series('allow', reason, policy)
  }

  #passesOf(policy: PlanPolicy): Series {
    const series = this.#of(policy)
    series.passes ??= this.#series('allow', 'all_rules_passed', policy)
    return series.passes
  }

  #of(policy: PlanPolicy): PolicySeries {
    if (this.#lastPolicy?.policy === policy) return this.#lastPolicy
    let series = this.#ofPolicies.get(policy)
    if (series === undefined) {
      series = { policy, covered: this.#covered.series(policy.id), passes: undefined }
      this.#ofPolicies.set(policy, series)
    }
    this.#lastPolicy = series
    return series
  }

  #series(action: string, reason: string, policy: PlanPolicy): Series {
    return this.#decisions.series(action, reason, policy.id, policy.route)
  }

  #wouldReject(rule: PlanRule, reason: WouldReject['reason']): Series {
    return this.#wouldRejects.series(rule.policy.id, rule.name, reason)
  }
}

/** The series in which nearly every request is counted that a policy covers. */
interface PolicySeries {
  readonly policy: PlanPolicy
  readonly covered: Series
  passes: Series | undefined
}

/** The series in which a reject is counted. */
interface RejectSeries {
  readonly reason: Rejected['reason']
  readonly decisions: Series
  readonly rejects: Series
}

type Outcome = 'allow' | 'reject' | 'refuse'
type OutcomeCounts = Readonly<Record<Outcome, Series>>

/** Outcomes of the questions of each door, counted on every decision. */
export class QuestionMetrics {
  readonly #family: CounterFamily
  readonly #byDoor = new Map<string, OutcomeCounts>()

  constructor(memory: MetricMemory) {
    this.#family = new CounterFamily(memory, 'edge_questions_total')
  }

  count(door: string, outcome: Outcome): void {
    this.#of(door)[outcome].count++
  }

  #of(door: string): OutcomeCounts {
    let counts = this.#byDoor.get(door)
    if (counts === undefined) {
      const series = (outcome: Outcome): Series => this.#family.series(door, outcome)
      counts = { allow: series('allow'), reject: series('reject'), refuse: series('refuse') }
      this.#byDoor.set(door, counts)
    }
    return counts
  }
}

export class BudgetWarningMetrics {
  readonly #warnings: CounterFamily

  constructor(memory: MetricMemory) {
    this.#warnings = new CounterFamily(memory, 'edge_budget_warnings_total')
  }

  count({ policy, name }: PlanRule, percent: number): void {
    this.#warnings.series(policy.id, name, String(percent)).count++
  }
}
