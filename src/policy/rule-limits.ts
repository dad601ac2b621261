import type { Limit } from '../limiter/limit.ts'
import type { PartLimit } from './algorithms/compiled-rule.ts'
import { concurrencyLimits } from './algorithms/concurrency.ts'
import { costBudgetLimits } from './algorithms/cost-budget.ts'
import { fixedWindowLimits } from './algorithms/fixed-window.ts'
import { tokenBucketLimits } from './algorithms/token-bucket.ts'
import { tokenBucketLlmLimits } from './algorithms/token-bucket-llm.ts'
import type { Rule } from './schema/bundle.ts'

/**
 * Returns the limits of a rule, one for each of its counters. If several cannot cover a request, the first is the reason. Calls of the rate
 * limit service (`isInDomain`) report LLM tokens when they have been spent already, so those limits can be overdrawn.
 */
export function ruleLimits(rule: Rule, isInDomain: boolean): readonly PartLimit[] {
  const limits = algorithmLimits(rule)
  return isInDomain && rule.algorithm === 'token_bucket_llm' ? limits.map(overdrawn) : limits
}

function algorithmLimits(rule: Rule): readonly PartLimit[] {
  switch (rule.algorithm) {
    case 'token_bucket':
      return tokenBucketLimits(rule.algorithm_config)
    case 'fixed_window':
      return fixedWindowLimits(rule.algorithm_config)
    case 'token_bucket_llm':
      return tokenBucketLlmLimits(rule.algorithm_config)
    case 'concurrency':
      return concurrencyLimits(rule.algorithm_config)
    case 'cost_budget':
      return costBudgetLimits(rule.algorithm_config)
    case 'unlimited':
    case 'block':
      return []
  }
}

function overdrawn(part: PartLimit): PartLimit {
  return { ...part, limit: { ...part.limit, canOverdraw: true } as Limit }
}
