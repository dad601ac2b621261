import type { Override, TimedOverride } from '../overrides/override.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { StatedLimit } from '../policy/stated-limit.ts'
import type { Counter } from '../store/charges.ts'

/** A rule under an override, with its counters open in a store: those of the rule, under other limits. */
export interface Variant {
  readonly override: Override
  /** In force from then on, and no longer at `toMs`, on the monotonic clock. */
  readonly fromMs: number
  readonly toMs: number
  /** With the rule of the bundle as its `variantOf`. */
  readonly rule: PlanRule
  /** One for each of the rule's. */
  readonly counters: readonly Counter[]
  readonly stated: readonly StatedLimit[]
}

/** The rule of the bundle: what decisions, metrics and logs name. */
export function bundleRule(rule: PlanRule): PlanRule {
  return rule.variantOf ?? rule
}

export function isInForce({ fromMs, toMs }: Pick<TimedOverride, 'fromMs' | 'toMs'>, nowMs: number): boolean {
  return fromMs <= nowMs && nowMs < toMs
}
