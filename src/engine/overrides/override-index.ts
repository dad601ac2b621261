import { type OverridesChange, overrideKey, type TimedOverride } from '../../overrides/override.ts'
import type { PlanCounter } from '../../policy/algorithms/compiled-rule.ts'
import { identityName } from '../../policy/compile.ts'
import { type FittedOverride, fitOverride } from '../../policy/overridden-rule.ts'
import type { Plan, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { statedLimits } from '../../policy/stated-limit.ts'
import type { Counter } from '../../store/charges.ts'
import type { CounterStore } from '../../store/counter-store.ts'
import type { CallerDigest } from '../decide-options.ts'
import { isInForce, RuleOverrides, type Variant } from './rule-overrides.ts'

/** Finds the override in force for a rule and a caller. */
export class OverrideIndex {
  readonly #byRule = new Map<PlanRule, RuleOverrides>()
  /** Overrides and position by the identity of each of a rule's counters. */
  readonly #byIdentity = new Map<string, { readonly overrides: RuleOverrides; readonly position: number }>()
  /** For each policy with blocking overrides, how many there are; and how many of them end open streams. */
  readonly #blocks = new Map<PlanPolicy, number>()
  readonly #streamCuts = new Map<PlanPolicy, number>()
  #shadows: readonly TimedOverride[] = []
  readonly #callerDigest: CallerDigest

  constructor(callerDigest: CallerDigest) {
    this.#callerDigest = callerDigest
  }

  putShadow(shadow: TimedOverride): void {
    this.#shadows = [...this.#shadows.filter(({ override }) => overrideKey(override) !== overrideKey(shadow.override)), shadow]
  }

  removeShadow(key: string): void {
    if (this.#shadows.length > 0) this.#shadows = this.#shadows.filter(({ override }) => overrideKey(override) !== key)
  }

  /** Adds a variant. `values` are in the order of the rule's limit keys, with credentials as digests; empty means all callers. */
  add(variant: Variant, values: readonly string[]): void {
    const rule = variant.rule.variantOf!
    let found = this.#byRule.get(rule)
    if (found === undefined) {
      found = new RuleOverrides(rule, this.#callerDigest)
      this.#byRule.set(rule, found)
      for (const [position, counter] of rule.counters.entries()) this.#byIdentity.set(identityName(counter), { overrides: found, position })
    }
    found.add(variant, values)
    this.#countBlock(variant.rule, 1)
  }

  /** Removes a variant that was added with the same values. */
  remove(variant: Variant, values: readonly string[]): void {
    const rule = variant.rule.variantOf!
    const found = this.#byRule.get(rule)!
    found.remove(variant, values)
    this.#countBlock(variant.rule, -1)
    if (!found.isEmpty) return
    this.#byRule.delete(rule)
    for (const counter of rule.counters) this.#byIdentity.delete(identityName(counter))
  }

  get isEmpty(): boolean {
    return this.#byRule.size === 0 && this.#shadows.length === 0
  }

  /** Whether all policies are in shadow mode. */
  isShadowed(nowMs: number): boolean {
    for (let i = 0; i < this.#shadows.length; i++) if (isInForce(this.#shadows[i]!, nowMs)) return true
    return false
  }

  /** Returns the overrides of one rule of the bundle. */
  of(rule: PlanRule): RuleOverrides | undefined {
    return this.#byRule.get(rule)
  }

  /** Returns a caller's counter under the override in force, for a counter of this or an earlier plan. Undefined if no override limits it. */
  counterOf(counter: PlanCounter, values: readonly string[], nowMs: number): Counter | undefined {
    const found = this.#byIdentity.get(identityName(counter))
    return found?.overrides.find(values, nowMs)?.counters[found.position]
  }

  /** Whether an override lifts or blocks the rule that a counter belongs to, so that the caller's counter limits nothing. */
  suspends(counter: PlanCounter, values: readonly string[], nowMs: number): boolean {
    return this.#byIdentity.get(identityName(counter))?.overrides.find(values, nowMs)?.counters.length === 0
  }

  mayBlock(policy: PlanPolicy): boolean {
    return policy.hasBlocks || this.#blocks.has(policy)
  }

  /** Whether an override may end open streams. */
  get cutsStreams(): boolean {
    return this.#streamCuts.size > 0
  }

  mayCutStreams(policy: PlanPolicy): boolean {
    return policy.hasBlocks || this.#streamCuts.has(policy)
  }

  #countBlock({ policy, block }: PlanRule, change: number): void {
    if (block !== undefined) count(this.#blocks, policy, change)
    if (block?.cutsStreams) count(this.#streamCuts, policy, change)
  }
}

function count(counts: Map<PlanPolicy, number>, policy: PlanPolicy, change: number): void {
  const sum = (counts.get(policy) ?? 0) + change
  if (sum > 0) counts.set(policy, sum)
  else counts.delete(policy)
}

/** The overrides as they apply to one plan's rules. An override whose rule is not in the plan, or that does not fit it, is not in force. */
export class PlanOverrides {
  /** Undefined if no override fits the plan, so that decisions check nothing more. */
  index: OverrideIndex | undefined
  readonly #all: OverrideIndex
  readonly #plan: PlannedRules
  readonly #store: CounterStore
  /** By the overrides' keys. */
  readonly #fitted = new Map<string, Fitted>()

  constructor(plan: PlannedRules, store: CounterStore, callerDigest: CallerDigest) {
    this.#plan = plan
    this.#store = store
    this.#all = new OverrideIndex(callerDigest)
  }

  /** Returns all overrides that were put and not removed, whether or not they fit the plan. */
  list(): TimedOverride[] {
    return Array.from(this.#fitted.values(), ({ timed }) => timed)
  }

  /** Whether this override was put, and has neither been removed nor put again with other times since. */
  has(timed: TimedOverride): boolean {
    return this.#fitted.get(overrideKey(timed.override))?.timed === timed
  }

  change({ put, gone }: OverridesChange): void {
    for (const key of gone) this.#remove(key)
    for (const timed of put) this.#put(timed)
    this.index = this.#all.isEmpty ? undefined : this.#all
  }

  #put(timed: TimedOverride): void {
    const { subject } = timed.override
    const key = overrideKey(timed.override)
    const fitted = subject === 'all_policies' ? { timed, variant: undefined, values: [] } : this.#fit(timed)
    this.#remove(key)
    this.#fitted.set(key, fitted)
    if (subject === 'all_policies') this.#all.putShadow(timed)
    if (fitted.variant !== undefined) this.#all.add(fitted.variant, fitted.values)
  }

  #remove(key: string): void {
    this.#all.removeShadow(key)
    const known = this.#fitted.get(key)
    if (known?.variant !== undefined) this.#all.remove(known.variant, known.values)
    this.#fitted.delete(key)
  }

  /** Fits an override to the plan, unless only its end has changed. */
  #fit(timed: TimedOverride): Fitted {
    const { override, fromMs, toMs } = timed
    const known = this.#fitted.get(overrideKey(override))
    if (known?.timed.fromMs === fromMs) return { ...known, timed, variant: known.variant && { ...known.variant, toMs } }
    const fit = fitOverride(this.#plan, override)
    return typeof fit === 'string'
      ? { timed, variant: undefined, values: [] }
      : { timed, variant: this.#open(timed, fit), values: fit.values }
  }

  #open({ override, fromMs, toMs }: TimedOverride, { rule, variant }: FittedOverride): Variant {
    const counters = variant.counters.map(({ identity, limit, isLeasable, isSettled }, c) => {
      const source = { momentMs: override.sinceMs, untilMs: override.untilMs, ruleSize: rule.counters[c]!.size }
      return this.#store.open({ identity, limit, isLeasable, isSettled, sinceMs: fromMs, override: source })
    })
    return { override, fromMs, toMs, rule: variant, counters, stated: statedLimits(variant.source) }
  }
}

type PlannedRules = Pick<Plan, 'policiesById'>

interface Fitted {
  readonly timed: TimedOverride
  /** Undefined if the override does not fit the plan, or is for all policies. */
  readonly variant: Variant | undefined
  readonly values: readonly string[]
}
