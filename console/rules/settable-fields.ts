import type { RuleJson } from '../../src/admin/api/types.ts'

/** Members of `algorithm_config` that an override may set. The API checks them again, in case this page is wrong. */
const SETTABLE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  token_bucket: ['rate', 'tokens_per_second', 'burst'],
  fixed_window: ['limit'],
  token_bucket_llm: ['tokens_per_minute', 'tokens_per_day', 'burst_tokens'],
  cost_budget: ['budget'],
  concurrency: ['max_in_flight'],
}

/** Returns the settable fields of this rule: its rate as the bundle writes it, and only limits that the rule has. */
export function settableFields({ algorithm, algorithm_config: config }: RuleJson): readonly string[] {
  const fields = SETTABLE_FIELDS[algorithm] ?? []
  return fields.filter((field) => {
    if (field === 'burst') return true
    if (field === 'burst_tokens') return config['tokens_per_minute'] !== undefined
    return config[field] !== undefined
  })
}
