import type { RuleJson } from '../../src/admin/api/types.ts'

/** The members of `algorithm_config` that an override may set. The API says so too, where this page does not know better. */
const SETTABLE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  token_bucket: ['rate', 'tokens_per_second', 'burst'],
  fixed_window: ['limit'],
  token_bucket_llm: ['tokens_per_minute', 'tokens_per_day', 'burst_tokens'],
  cost_budget: ['budget'],
  concurrency: ['max_in_flight'],
}

/** Those of this rule: a rate in the way in which the bundle writes it, and only limits that the rule has. */
export function settableFields({ algorithm, algorithm_config: config }: RuleJson): readonly string[] {
  const fields = SETTABLE_FIELDS[algorithm] ?? []
  return fields.filter((field) => {
    if (field === 'burst') return true
    if (field === 'burst_tokens') return config['tokens_per_minute'] !== undefined
    return config[field] !== undefined
  })
}
