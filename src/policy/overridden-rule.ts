import { MAX_BUDGET } from '../costs/money.ts'
import { NOTHING } from '../costs/nothing.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { BUCKET, type BucketLimit, IN_FLIGHT, type Limit } from '../limiter/limit.ts'
import type { OverrideChange } from '../overrides/override.ts'
import type { Block } from './algorithms/compiled-rule.ts'
import { MIN_PER_SECOND, parseRate, RATE } from './algorithms/rate.ts'
import { isInBody, parseDescriptorKey } from './descriptor-key.ts'
import { MAX_TOKENS } from './max-tokens.ts'
import type { PlanRule } from './plan.ts'
import type { PlanCounter } from './plan-counter.ts'
import { ruleLimits } from './rule-limits.ts'
import type { Rule } from './schema.ts'
import { settableFields, withFields } from './settable-fields.ts'

/** The largest number that limits can be multiplied by. */
export const MAX_FACTOR = 1_000_000

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
      return withLimits(rule, (source) => multiplied(source, change.factor))
    case 'set':
      return withLimits(rule, (source) => withKnownFields(source, change.fields))
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

function withLimits(rule: PlanRule, changed: (source: Rule) => Rule | string): PlanRule | string {
  if (rule.counters.length === 0) return `a rule with algorithm ${rule.source.algorithm} has no limits: use unlimited or block`
  const source = changed(rule.source)
  if (typeof source === 'string') return source
  const limits = ruleLimits(source, rule.policy.selector.domain !== undefined)
  const counters: PlanCounter[] = []
  for (const [i, { limit }] of limits.entries()) {
    const base = rule.counters[i]!
    const problem = problemOf(limit)
    if (problem !== undefined) return problem
    const size = algorithmOf(limit).size(limit)
    const own = limit.kind === BUCKET ? { ...limit, raisedFrom: base.size } : limit
    counters.push(Object.freeze({ ...base, limit: Object.freeze(own), size, limitText: String(Math.floor(size / base.unit)) }))
  }
  return Object.freeze({ ...rule, source, counters, variantOf: rule })
}

/** Rates and sizes of all kinds. What counts in whole numbers is rounded down. No size falls below the smallest that a bundle may have. */
function multiplied(rule: Rule, factor: number): Rule | string {
  if (!(factor > 0 && factor <= MAX_FACTOR)) return `multiply: expected a number above 0, up to ${MAX_FACTOR}`
  const whole = (count: number) => Math.max(1, Math.floor(product(count, factor)))
  const { algorithm_config: config } = rule
  switch (rule.algorithm) {
    case 'token_bucket': {
      const { rate, tokens_per_second } = rule.algorithm_config
      const { burst } = ruleLimits(rule, false)[0]!.limit as BucketLimit
      const refill =
        rate === undefined ? { tokens_per_second: product(tokens_per_second!, factor) } : { rate: multipliedRate(rate, factor) }
      return withKnownFields(rule, { ...refill, burst: Math.max(1, product(burst, factor)) })
    }
    case 'cost_budget': {
      const micro = Math.max(1, Math.floor(product(rule.algorithm_config.budget * 1e6, factor)))
      return withKnownFields(rule, { budget: micro / 1e6 })
    }
    default: {
      const numbers = Object.entries(config).filter(([name, value]) => settableFields(rule).includes(name) && value !== undefined)
      return withKnownFields(rule, Object.fromEntries(numbers.map(([name, value]) => [name, whole(value as number)])))
    }
  }
}

/** Without the digits in which products of decimal numbers differ from what people expect: 100 × 1.15 is 115. */
function product(a: number, b: number): number {
  return Number((a * b).toPrecision(15))
}

function multipliedRate(rate: string, factor: number): string {
  const [, count, unit] = RATE.exec(rate)!
  const number = product(Number(count), factor)
  // Rates are written without exponents; from 1e21 on they are out of range anyway.
  return `${number < 1e-6 ? number.toLocaleString('en', { maximumFractionDigits: 20 }) : number}/${unit}`
}

function withKnownFields(rule: Rule, fields: Readonly<Record<string, unknown>>): Rule | string {
  const known = settableFields(rule)
  const unknown = Object.keys(fields).find((field) => !known.includes(field))
  if (unknown !== undefined) return `the rule has no ${unknown} that can be set`
  for (const [field, value] of Object.entries(fields)) {
    if (field === 'rate' ? typeof value !== 'string' || parseRate(value) === undefined : typeof value !== 'number') {
      return `${field} is out of range`
    }
  }
  if (rule.algorithm === 'cost_budget' && !((fields.budget as number) <= MAX_BUDGET)) return `budget is above ${MAX_BUDGET}`
  return withFields(rule, fields)
}

const MAX_IN_FLIGHT = 1_000_000

/** The bounds of a bundle's schema. */
function problemOf(limit: Limit): string | undefined {
  const size = algorithmOf(limit).size(limit)
  if (limit.kind === BUCKET) {
    const perSecond = limit.tokensPerMs * 1000
    if (!(perSecond >= MIN_PER_SECOND && perSecond <= MAX_TOKENS))
      return outOfRange('rate per second', perSecond, MIN_PER_SECOND, MAX_TOKENS)
    return size >= 1 && size <= MAX_TOKENS ? undefined : outOfRange('burst', size, 1, MAX_TOKENS)
  }
  const max = limit.kind === IN_FLIGHT ? MAX_IN_FLIGHT : Number.MAX_SAFE_INTEGER
  return Number.isInteger(size) && size >= 1 && size <= max ? undefined : outOfRange('limit', size, 1, max)
}

function outOfRange(what: string, value: number, min: number, max: number): string {
  return `the ${what} would be ${value}: expected ${min} to ${max}`
}
