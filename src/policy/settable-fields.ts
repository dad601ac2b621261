import type { BucketLimit } from '../limiter/limit.ts'
import { tokenBucketLimits } from './algorithms/token-bucket.ts'
import type { Rule } from './schema.ts'

/** The members of `algorithm_config` that an override may change: limits, and nothing that a counter's identity or a cost depends on. */
const SETTABLE_FIELDS: Readonly<Record<Rule['algorithm'], readonly string[]>> = {
  token_bucket: ['rate', 'tokens_per_second', 'burst'],
  fixed_window: ['limit'],
  token_bucket_llm: ['tokens_per_minute', 'tokens_per_day', 'burst_tokens'],
  cost_budget: ['budget'],
  concurrency: ['max_in_flight'],
  unlimited: [],
  block: [],
}

/** Those of this rule: a limit that it does not have would be a new counter. */
export function settableFields({ algorithm, algorithm_config: config }: Rule): readonly string[] {
  const fields = SETTABLE_FIELDS[algorithm]
  if (algorithm !== 'token_bucket_llm') return fields
  const counted = (field: string) => (field === 'tokens_per_day' ? field : 'tokens_per_minute')
  return fields.filter((field) => (config as Record<string, unknown>)[counted(field)] !== undefined)
}

/** The rule with these members of its `algorithm_config`, which are settable; their values are not checked. */
export function withFields(rule: Rule, fields: Readonly<Record<string, unknown>>): Rule {
  return { ...rule, algorithm_config: { ...baseOf(rule, fields), ...fields } } as Rule
}

/** A rate is written in one of two ways. One in tokens per second needs a burst. */
function baseOf(rule: Rule, fields: Readonly<Record<string, unknown>>): object {
  if (rule.algorithm !== 'token_bucket') return rule.algorithm_config
  const { rate, tokens_per_second, ...others } = rule.algorithm_config
  if (fields.rate !== undefined) return others
  if (fields.tokens_per_second === undefined) return rule.algorithm_config
  return { burst: (tokenBucketLimits(rule.algorithm_config)[0]!.limit as BucketLimit).burst, ...others }
}
