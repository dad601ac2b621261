import type { RuleJson } from '../../src/admin/api/types.ts'
import { unitName } from '../amounts.ts'
import { periodWords, unitOfCost } from '../policy-words.ts'

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

/** Names a settable field with the unit of its numbers. */
export function settableLabel({ algorithm_config: config }: RuleJson, field: string): string {
  const unit = unitName(unitOfCost(config))
  switch (field) {
    case 'rate':
      return `Rate, such as 60/minute, in ${unit}`
    case 'tokens_per_second':
      return `Rate, in ${unit} per second`
    case 'burst':
      return `Burst, in ${unit}`
    case 'limit':
      return `Limit, in ${unit} per ${periodWords(config)}`
    case 'tokens_per_minute':
      return 'Tokens per minute'
    case 'tokens_per_day':
      return 'Tokens per day'
    case 'burst_tokens':
      return 'Burst, in tokens'
    case 'budget':
      return `Budget, in ${unitName('money')} per ${periodWords(config)}`
    default:
      return 'Requests in flight'
  }
}
