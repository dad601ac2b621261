import type { PlanRule } from './plan.ts'

/** What one unit of a rule's counters is: a request, an LLM token, money, or whatever the rule's own `cost` is expressed in. */
export type CountedUnit = 'requests' | 'tokens' | 'money' | 'units'

export function countedUnit({ source }: Pick<PlanRule, 'source'>): CountedUnit {
  switch (source.algorithm) {
    case 'token_bucket_llm':
      return 'tokens'
    case 'cost_budget':
      return 'money'
    case 'token_bucket':
    case 'fixed_window':
      return (source.algorithm_config.cost ?? 1) === 1 ? 'requests' : 'units'
    default:
      return 'requests'
  }
}
