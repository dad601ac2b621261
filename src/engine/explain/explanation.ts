import type { Override } from '../../overrides/override.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import type { CallerVerdict } from '../../request/caller.ts'
import { blockIn } from '../charging.ts'
import type { Decision } from '../decision.ts'
import { AMBIGUOUS_MATCH, APPLIES, NO_MATCH, OVER, type Verdict } from '../rule-verdicts.ts'
import { keyIndexesOf, type Run } from '../run.ts'
import type { ExplainedCounter } from '../seen-counters.ts'
import type { Mismatch } from './selector-mismatch.ts'

/** The decision that a request would get, and why. Nothing was taken for it. */
export interface Explanation {
  readonly decision: Decision
  /** Who sends the request, or why nobody knows; undefined if the bundle has no `callers`, or the request is refused or blocked whoever sends it. */
  readonly caller: CallerVerdict | undefined
  /** Every policy of the plan, in bundle order. */
  readonly policies: readonly ExplainedPolicy[]
}

export interface ExplainedPolicy {
  readonly policy: PlanPolicy
  /** Why it does not cover the request; undefined if it does. */
  readonly why: Mismatch | undefined
  /** Empty if the policy does not cover the request. */
  readonly rules: readonly ExplainedRule[]
}

export interface ExplainedRule {
  readonly rule: PlanRule
  /** Why it does not apply; undefined if it does. */
  readonly why: 'missing_descriptor' | 'repeated_descriptor' | 'no_match' | undefined
  /** Of an `else` that does not apply: the rule with a `match` that does, so that this one is skipped. */
  readonly instead: PlanRule | undefined
  /** Amount that the request would take from each of its counters, in their units; undefined if two readers could disagree on it. */
  readonly cost: number | undefined
  /** Completion tokens that its reservation would ask for at a time while the stream runs; undefined if it does not grow. */
  readonly growsBy: number | undefined
  /** Descriptors of its match and its limit keys. */
  readonly descriptors: readonly ExplainedDescriptor[]
  /** State of its counters before the request. Empty if the rule does not apply or the store is unavailable. */
  readonly counters: readonly ExplainedCounter[]
  /** The override in force for this caller. */
  readonly override: Override | undefined
}

export interface ExplainedDescriptor {
  readonly key: string
  /** Undefined if it is missing or repeated. */
  readonly value: string | undefined
}

/** An explanation whose policies are described one by one, as they are iterated. */
export interface StepwiseExplanation {
  readonly decision: Decision
  readonly caller: CallerVerdict | undefined
  readonly policies: Iterable<ExplainedPolicy>
}

/** Describes every policy as a run that only looks has seen it. The run must not change until all of them are described. */
export function* describePolicies(run: Run): Generator<ExplainedPolicy> {
  const { policies, count } = run.matches
  const matched = new Set(policies.slice(0, count))
  for (const policy of run.active!.plan.policies) {
    if (matched.has(policy)) yield { policy, why: undefined, rules: describeRules(run, policy) }
    else yield { policy, why: run.mismatchOf(policy), rules: [] }
  }
}

function describeRules(run: Run, policy: PlanPolicy): ExplainedRule[] {
  // A decision leaves out an ambiguous shadow policy as a whole.
  const isLeftOut = run.simulates(policy) && run.isAmbiguous(policy) && blockIn(run, policy) === undefined
  const verdicts = run.judge(policy)
  const matching = policy.rules.find(({ match }, i) => match !== undefined && verdicts.of(i) === APPLIES)
  return policy.rules.map((rule, i) => {
    const variant = run.variantOf(rule)
    const inForce = variant?.rule ?? rule
    const why = isLeftOut ? 'repeated_descriptor' : whyNot(run, inForce, verdicts.of(i))
    return {
      rule,
      why,
      instead: rule.isElse && why === 'no_match' ? matching : undefined,
      cost: costOf(run, inForce, rule.counters[0]?.unit ?? 1),
      growsBy: inForce.cost.growsBy?.(run),
      descriptors: [...new Set(keyIndexesOf(rule))].map((index) => describeKey(run, index)),
      counters: run.seen!.of(rule),
      override: variant?.override,
    }
  })
}

/** Returns undefined if the field that states the cost is repeated, or if the cost depends on an ambiguous body. */
function costOf(run: Run, { cost }: PlanRule, unit: number): number | undefined {
  const amount = cost.of(run)
  return Number.isNaN(amount) || (cost.needsBody && run.isBodyAmbiguous) ? undefined : amount / unit
}

function whyNot(run: Run, rule: PlanRule, verdict: Verdict): ExplainedRule['why'] {
  if (verdict === APPLIES) return run.isCostAmbiguous(rule) ? 'repeated_descriptor' : undefined
  if (verdict === AMBIGUOUS_MATCH) return 'repeated_descriptor'
  return verdict === NO_MATCH || verdict === OVER ? 'no_match' : 'missing_descriptor'
}

function describeKey(run: Run, index: number): ExplainedDescriptor {
  const value = run.valueOf(index)
  return { key: run.active!.plan.keys[index]!.text, value: typeof value === 'string' ? value : undefined }
}
