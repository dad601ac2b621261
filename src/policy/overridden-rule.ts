import { NOTHING } from '../costs/request-costs.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { BUCKET } from '../limiter/limit.ts'
import type { Override, OverrideChange } from '../overrides/override.ts'
import type { Block, PlanCounter } from './algorithms/compiled-rule.ts'
import { changedLimits, type LimitsChange } from './change-check.ts'
import { isInBody, parseDescriptorKey } from './descriptor-key.ts'
import type { Plan, PlanRule } from './plan.ts'
import { quotaText } from './quota-text.ts'
import { ruleLimits } from './rule-limits.ts'

/**
 * Returns the variant that an override makes of a rule: the same policy, name, keys and counter identities, with other limits. If the change
 * does not fit the rule, returns a text that says why.
 */
export function overriddenRule(rule: PlanRule, change: OverrideChange): PlanRule | string {
  switch (change.kind) {
    case 'unlimited':
      return withoutCounters(rule, undefined)
    case 'block':
      return blocked(rule, change.cutsStreams === true)
    case 'shadow':
      return 'shadow_all changes all policies, not one rule'
    case 'multiply':
    case 'set':
      return withLimits(rule, change)
  }
}

function blocked(rule: PlanRule, cutsStreams: boolean): PlanRule | string {
  if (cutsStreams && rule.policy.selector.domain !== undefined)
    return 'cut_streams: expected none in a policy with a domain: it ends no streams'
  return withoutCounters(rule, Object.freeze({ expiresAtMs: Number.POSITIVE_INFINITY, message: undefined, cutsStreams }))
}

function withoutCounters(rule: PlanRule, block: Block | undefined): PlanRule {
  return Object.freeze({ ...rule, counters: [], cost: NOTHING, block, needsBody: hasKeysInBody(rule), llm: undefined, variantOf: rule })
}

function hasKeysInBody({ limitKeys, source: { match } }: PlanRule): boolean {
  const keys = typeof match === 'object' ? [...limitKeys, ...Object.keys(match)] : limitKeys
  return keys.some((key) => isInBody(parseDescriptorKey(key)!))
}

function withLimits(rule: PlanRule, change: LimitsChange): PlanRule | string {
  const source = changedLimits(rule.source, change)
  if (typeof source === 'string') return source
  const counters = ruleLimits(source, rule.policy.selector.domain !== undefined).map(({ limit }, i): PlanCounter => {
    const base = rule.counters[i]!
    const size = algorithmOf(limit).size(limit)
    const own = limit.kind === BUCKET ? { ...limit, raisedFrom: base.size } : limit
    const limitText = String(Math.floor(size / base.unit))
    return Object.freeze({
      ...base,
      limit: Object.freeze(own),
      size,
      limitText,
      quotaText: base.quotaText && quotaText(limit, limitText),
    })
  })
  return Object.freeze({ ...rule, source, counters, variantOf: rule })
}

/** An override with the rule that it applies to, and the variant that it makes of that rule. */
export interface FittedOverride {
  readonly rule: PlanRule
  readonly variant: PlanRule
  /** The caller's values, in the order of the rule's limit keys; empty if the override applies to all callers. */
  readonly values: readonly string[]
}

/** Returns a text if the override is not in force: it says why the override has no rule in this plan, or does not fit that rule. */
export function fitOverride(
  plan: Pick<Plan, 'policiesById'>,
  { subject, change }: Pick<Override, 'subject' | 'change'>,
): FittedOverride | string {
  if (subject === 'all_policies') return 'it changes all policies, not one rule'
  const rule = plan.policiesById.get(subject.policy)?.rules.find(({ name }) => name === subject.rule)
  if (rule === undefined) return `the bundle has no policy ${subject.policy} with a rule ${subject.rule}`
  const values = orderedValues(rule, subject.values)
  if (values === undefined) return `the rule's limit_keys are ${rule.limitKeys.join(', ') || 'empty'}`
  const variant = overriddenRule(rule, change)
  return typeof variant === 'string' ? variant : { rule, variant, values }
}

function orderedValues({ limitKeys }: PlanRule, values: Readonly<Record<string, string>> | undefined): readonly string[] | undefined {
  if (values === undefined) return []
  if (Object.keys(values).length !== limitKeys.length || !limitKeys.every((key) => Object.hasOwn(values, key))) return undefined
  return limitKeys.map((key) => values[key]!)
}
