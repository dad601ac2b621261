import type { TimedOverride } from '../overrides/override.ts'
import { identityName } from '../policy/compile.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { PlanCounter } from '../policy/plan-counter.ts'
import type { Counter } from '../store/charges.ts'
import type { CallerDigest } from './caller-digest.ts'
import { RuleOverrides } from './rule-overrides.ts'
import { isInForce, type Variant } from './variant.ts'

/** Finds the override that is in force for a rule and a caller. */
export class OverrideIndex {
  readonly #byRule = new Map<PlanRule, RuleOverrides>()
  /** By the identity of each of a rule's counters. */
  readonly #byIdentity = new Map<string, { readonly overrides: RuleOverrides; readonly position: number }>()
  /** Policies with rules that overrides may block, and how many of these there are. */
  readonly #blocks = new Map<PlanPolicy, number>()
  #shadows: readonly TimedOverride[] = []
  readonly #callerDigest: CallerDigest

  constructor(callerDigest: CallerDigest) {
    this.#callerDigest = callerDigest
  }

  putShadow(shadow: TimedOverride): void {
    this.#shadows = [...this.#shadows.filter(({ override }) => override.id !== shadow.override.id), shadow]
  }

  removeShadow(id: string): void {
    if (this.#shadows.length > 0) this.#shadows = this.#shadows.filter(({ override }) => override.id !== id)
  }

  /** `values`: in the order of the rule's limit keys, credentials as digests; none: all callers. */
  add(variant: Variant, values: readonly string[]): void {
    const rule = variant.rule.variantOf!
    let found = this.#byRule.get(rule)
    if (found === undefined) {
      found = new RuleOverrides(rule, this.#callerDigest)
      this.#byRule.set(rule, found)
      for (const [position, counter] of rule.counters.entries()) this.#byIdentity.set(identityName(counter), { overrides: found, position })
    }
    found.add(variant, values)
    if (variant.rule.block !== undefined) this.#countBlocks(rule.policy, 1)
  }

  /** One that was added, with the same values. */
  remove(variant: Variant, values: readonly string[]): void {
    const rule = variant.rule.variantOf!
    const found = this.#byRule.get(rule)!
    found.remove(variant, values)
    if (variant.rule.block !== undefined) this.#countBlocks(rule.policy, -1)
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

  /** Of one rule of the bundle. */
  of(rule: PlanRule): RuleOverrides | undefined {
    return this.#byRule.get(rule)
  }

  /** The counter of a caller under the override in force, by a counter of this or an earlier plan. Undefined where none limits it. */
  counterOf(counter: PlanCounter, values: readonly string[], nowMs: number): Counter | undefined {
    const found = this.#byIdentity.get(identityName(counter))
    return found?.overrides.find(values, nowMs)?.counters[found.position]
  }

  mayBlock(policy: PlanPolicy): boolean {
    return policy.hasBlocks || this.#blocks.has(policy)
  }

  #countBlocks(policy: PlanPolicy, change: number): void {
    const count = (this.#blocks.get(policy) ?? 0) + change
    if (count > 0) this.#blocks.set(policy, count)
    else this.#blocks.delete(policy)
  }
}
