import type { Override } from '../overrides/override.ts'
import type { Mismatch } from '../policy/mismatch.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import { blockIn, findBlock } from './blocks.ts'
import { chargePolicy } from './charging.ts'
import { allowed, blocked, NO_HOST, NO_STORE, REPEATED_FIELD, rejected } from './conclusion.ts'
import { type CounterStatus, statusOf } from './counter-status.ts'
import type { Decision } from './decision.ts'
import { Group } from './group.ts'
import type { OpenReservations } from './open-reservations.ts'
import { AMBIGUOUS, APPLIES, NO_MATCH, OVER, type Verdict } from './rule-verdicts.ts'
import { keyIndexesOf, type Run } from './run.ts'
import { bundleRule } from './variant.ts'
import { awaitSettlements, longestRejection, mostConstrained } from './verdict.ts'

/** What would be decided for a request, and why. Nothing was taken for it. */
export interface Explanation {
  readonly decision: Decision
  /** Every policy of the plan, in bundle order. */
  readonly policies: readonly ExplainedPolicy[]
}

export interface ExplainedPolicy {
  readonly policy: PlanPolicy
  /** Why it does not cover the request; undefined where it does. */
  readonly why: Mismatch | undefined
  /** Empty where the policy does not cover the request. */
  readonly rules: readonly ExplainedRule[]
}

export interface ExplainedRule {
  readonly rule: PlanRule
  /** Why it does not apply; undefined where it does. */
  readonly why: 'missing_descriptor' | 'repeated_descriptor' | 'no_match' | undefined
  /** What the request would take from each of its counters, in their units; undefined where two readers could understand it differently. */
  readonly cost: number | undefined
  /** Of its match and its limit keys. */
  readonly descriptors: readonly ExplainedDescriptor[]
  /** Their state before the request. Empty where the rule does not apply, or the store is unavailable. */
  readonly counters: readonly ExplainedCounter[]
  /** The one that is in force for this caller. */
  readonly override: Override | undefined
}

export interface ExplainedDescriptor {
  readonly key: string
  /** Undefined where it is missing or repeated. */
  readonly value: string | undefined
}

export interface ExplainedCounter extends CounterStatus {
  /** How long until it could cover this request: 0 = now, Infinity = never. */
  readonly waitMs: number
}

/** An explanation whose policies are described one by one, as they are asked for. */
export interface StepwiseExplanation {
  readonly decision: Decision
  readonly policies: Iterable<ExplainedPolicy>
}

/** Checks all policies that cover the run's request, and takes nothing. The run must stay as it is until all policies are described. */
export function explain(
  run: Run,
  store: CounterStore,
  open: OpenReservations | undefined,
): StepwiseExplanation | Promise<StepwiseExplanation> {
  const groups = chargedGroups(run)
  const outcomes = groups.map(({ group }) => check(run, group, store))
  if (outcomes.some((outcome) => outcome instanceof Promise)) return Promise.all(outcomes).then((all) => conclude(run, groups, all, open))
  return conclude(run, groups, outcomes as Outcome[], open)
}

/** The group of all enforcing policies, or of a shadow policy. */
interface ChargedGroup {
  readonly group: Group
  /** How many keys are missing in this group and those before it. */
  readonly missingCount: number
  /** What rejects before a counter is asked. */
  readonly block: PlanRule | undefined
}

function chargedGroups(run: Run): ChargedGroup[] {
  const policies = matchesOf(run)
  run.group = new Group()
  for (const policy of policies) if (!run.simulates(policy)) chargePolicy(run, policy, false)
  const groups = [{ group: run.group, missingCount: run.missingKeys.length, block: run.isShadowed ? undefined : findBlock(run) }]
  for (const policy of policies) {
    if (!run.simulates(policy)) continue
    const block = blockIn(run, policy)
    if (block === undefined && run.isAmbiguous(policy)) continue
    run.group = new Group()
    if (block === undefined) chargePolicy(run, policy, false)
    groups.push({ group: run.group, missingCount: run.missingKeys.length, block })
  }
  return groups
}

function check(run: Run, { charges, results }: Group, store: CounterStore): Outcome | Promise<Outcome> {
  return charges.length === 0 || store.checkAll(charges, results, run.nowMs, run.wallMs, true)
}

function conclude(
  run: Run,
  groups: readonly ChargedGroup[],
  outcomes: readonly Outcome[],
  open: OpenReservations | undefined,
): StepwiseExplanation {
  if (open !== undefined && outcomes[0] === false) awaitSettlements(groups[0]!.group, open)
  const counters = countersByRule(groups, outcomes)
  return { decision: decisionOf(run, groups, outcomes), policies: explainPolicies(run, counters) }
}

function* explainPolicies(run: Run, counters: ReadonlyMap<PlanRule, ExplainedCounter[]>): Generator<ExplainedPolicy> {
  const matched = new Set(matchesOf(run))
  for (const policy of run.active!.plan.policies) {
    if (matched.has(policy)) yield { policy, why: undefined, rules: explainRules(run, policy, counters) }
    else yield { policy, why: run.mismatchOf(policy), rules: [] }
  }
}

/** Of the rules that apply. */
function countersByRule(groups: readonly ChargedGroup[], outcomes: readonly Outcome[]): Map<PlanRule, ExplainedCounter[]> {
  const found = new Map<PlanRule, ExplainedCounter[]>()
  for (const [g, { group }] of groups.entries()) {
    const { levels, waitsMs, wallMs } = group.results
    for (let i = 0; i < group.ruleCount; i++) {
      const rule = group.rules[i]!
      const row = group.firstRows[i]!
      const known = outcomes[g] === 'unavailable' ? [] : rule.counters
      found.set(
        bundleRule(rule),
        known.map((counter, c) => ({ ...statusOf(counter, levels[row + c]!, wallMs), waitMs: waitsMs[row + c]! })),
      )
    }
  }
  return found
}

function explainRules(run: Run, policy: PlanPolicy, counters: ReadonlyMap<PlanRule, ExplainedCounter[]>): ExplainedRule[] {
  // A shadow policy is left out as a whole.
  const isLeftOut = run.simulates(policy) && run.isAmbiguous(policy) && blockIn(run, policy) === undefined
  const verdicts = run.judge(policy)
  return policy.rules.map((rule, i) => {
    const variant = run.variantOf(rule)
    const inForce = variant?.rule ?? rule
    return {
      rule,
      why: isLeftOut ? 'repeated_descriptor' : whyNot(run, inForce, verdicts.of(i)),
      cost: costOf(run, inForce, rule.counters[0]?.unit ?? 1),
      descriptors: [...new Set(keyIndexesOf(rule))].map((index) => describe(run, index)),
      counters: counters.get(rule) ?? [],
      override: variant?.override,
    }
  })
}

/** Undefined where the field that says it is repeated, and where it depends on a body that can be understood in more than one way. */
function costOf(run: Run, { cost }: PlanRule, unit: number): number | undefined {
  const amount = cost.of(run)
  return Number.isNaN(amount) || (cost.needsBody && run.isBodyAmbiguous) ? undefined : amount / unit
}

function whyNot(run: Run, rule: PlanRule, verdict: Verdict): ExplainedRule['why'] {
  if (verdict === APPLIES) return run.isCostAmbiguous(rule) ? 'repeated_descriptor' : undefined
  if (verdict === AMBIGUOUS) return 'repeated_descriptor'
  return verdict === NO_MATCH || verdict === OVER ? 'no_match' : 'missing_descriptor'
}

function describe(run: Run, index: number): ExplainedDescriptor {
  const value = run.valueOf(index)
  return { key: run.active!.plan.keys[index]!.text, value: typeof value === 'string' ? value : undefined }
}

/** The same decision as `decide`, in the same order of checks. */
function decisionOf(run: Run, groups: readonly ChargedGroup[], outcomes: readonly Outcome[]): Decision {
  if (run.lacksHost && !run.isShadowed) return NO_HOST
  if (groups[0]!.block !== undefined) {
    run.missingKeys = []
    return blocked(run, groups[0]!.block)
  }
  if (run.hasRepeated && !run.isShadowed) return REPEATED_FIELD
  if (outcomes[0] === 'unavailable') return NO_STORE
  const [enforcing, ...shadows] = groups
  run.group = enforcing!.group
  if (outcomes[0] === false) {
    run.missingKeys = run.missingKeys.slice(0, enforcing!.missingCount)
    return rejected(run)
  }
  takeFromLevels(run.group)
  run.limit = mostConstrained(run.group)
  for (const [i, { group, block }] of shadows.entries()) {
    if (block !== undefined) run.addWouldReject({ rule: block, reason: 'blocked' })
    else if (outcomes[i + 1] === false) run.addWouldReject(longestRejection(group))
  }
  return allowed(run)
}

/** A decision reports what is left after it. */
function takeFromLevels({ charges, results }: Group): void {
  for (let row = 0; row < charges.length; row++) results.levels[row]! -= charges.costs[row]!
}

function matchesOf({ matches }: Run): PlanPolicy[] {
  return matches.policies.slice(0, matches.count) as PlanPolicy[]
}
