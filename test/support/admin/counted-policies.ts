import { blockRule, bucketRule, budgetRule, concurrencyRule, llmRule, policy, windowRule } from '../bundles/bundles.ts'
import { HARDLY_ANY } from '../redis/sharing-edge.ts'

export const POLICIES = [
  policy('api', {
    selector: { pathPrefix: '/api' },
    rules: [
      bucketRule('per-key', ['header:x-key', 'ip:address'], 4, 0.5),
      bucketRule('secret', ['bearer'], 3),
      windowRule('hourly', ['header:x-hourly'], { limit: 10, period: '1h', when_over: 'charge', cost: 12 }),
      llmRule('tokens', ['header:x-llm'], { tokens_per_minute: 600, tokens_per_day: 9000, max_completion_tokens: 100 }),
      concurrencyRule('at-once', ['header:x-held'], 3),
      budgetRule('money', ['header:x-money'], { budget: 10, cost: { header: 'x-price', default: 0.5 } }),
      bucketRule('everybody', [], 1000, HARDLY_ANY),
      blockRule('bad', { 'header:x-bad': '1' }),
      bucketRule('slow', ['header:x-slow'], 3, HARDLY_ANY),
    ],
  }),
  policy('trial', { mode: 'shadow', selector: { pathPrefix: '/api' }, rules: [bucketRule('r', ['header:x-key'], 2)] }),
  policy('calls', { selector: { domain: 'd' }, rules: [bucketRule('users', ['descriptor:user'], 5)] }),
]
