import { NOTHING } from '../costs/nothing.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { BUCKET } from '../limiter/limit.ts'
import type { OverrideChange } from '../overrides/override.ts'
import type { Block } from './algorithms/compiled-rule.ts'
import { changedLimits, type LimitsChange } from './change-check.ts'
import { isInBody, parseDescriptorKey } from './descriptor-key.ts'
import type { PlanRule } from './plan.ts'
import type { PlanCounter } from './plan-counter.ts'
import { ruleLimits } from './rule-limits.ts'

/**
 * The rule as an override changes it: the same policy, name, keys and identities of counters, with other limits. A text where the change
 * does not fit the rule, which says why.
 */
export function overriddenRule(rule: PlanRule, change: OverrideChange): PlanRule | string {
  switch (change.kind) {
    case 'unlimited':
      return withoutCounters(rule, undefined)
    case 'block':
      return withoutCounters(rule, BLOCK)
    case 'shadow':
      return 'shadow_all changes all policies, not one rule'
    case 'multiply':
    case 'set':
      return withLimits(rule, change)
  }
}

const BLOCK: Block = Object.freeze({ expiresAtMs: Number.POSITIVE_INFINITY, message: undefined, cutsStreams: false })

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
    return Object.freeze({ ...base, limit: Object.freeze(own), size, limitText: String(Math.floor(size / base.unit)) })
  })
  return Object.freeze({ ...rule, source, counters, variantOf: rule })
}
