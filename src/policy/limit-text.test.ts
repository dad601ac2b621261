import { expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  budgetRule,
  concurrencyRule,
  llmRule,
  rateRule,
  unlimitedRule,
  windowRule,
} from '../../test/support/bundles/bundles.ts'
import { compiledRule } from '../../test/support/bundles/compiled-rule.ts'
import { limitTexts } from './limit-text.ts'

test.each([
  [rateRule('r', [], { rate: '60/minute' }), ['60 requests per minute']],
  [rateRule('r', [], { rate: '60/minute', burst: 60 }), ['60 requests per minute']],
  [rateRule('r', [], { rate: '1500/hour', burst: 2000 }), ['1,500 requests per hour, burst 2,000']],
  [rateRule('r', [], { rate: '0.0000001/second' }), ['0.0000001 requests per second']],
  [bucketRule('r', [], 10, 2), ['2 requests per second, burst 10']],
  [bucketRule('r', [], 10, 0.1), ['6 requests per minute, burst 10']],
  [bucketRule('r', [], 10, 1e-6), ['0.0864 requests per day, burst 10']],
  [windowRule('r', [], { limit: 1000, period: '1d' }), ['1,000 requests per day']],
  [windowRule('r', [], { limit: 5, period: '15m' }), ['5 requests per 15 minutes']],
  [windowRule('r', [], { limit: 5, period: '1w', anchor: 'sunday' }), ['5 requests per week (from Sunday)']],
  [windowRule('r', [], { limit: 5, period: '1w', anchor: 'monday' }), ['5 requests per week']],
  [
    windowRule('r', [], { limit: 5, period: '1mo', anchor: 15, timezone: 'Europe/Berlin' }),
    ['5 requests per month (from day 15, Europe/Berlin)'],
  ],
  [windowRule('r', [], { limit: 5, period: '6h', timezone: 'Europe/Berlin' }), ['5 requests per 6 hours (Europe/Berlin)']],
  [windowRule('r', [], { limit: 5, period: '3mo' }), ['5 requests per quarter']],
  [llmRule('r', [], { tokens_per_minute: 1000 }), ['1,000 tokens per minute']],
  [llmRule('r', [], { tokens_per_day: 5000 }), ['5,000 tokens per day']],
  [
    llmRule('r', [], { tokens_per_minute: 10, burst_tokens: 20, tokens_per_day: 30 }),
    ['10 tokens per minute, burst 20', '30 tokens per day'],
  ],
  [budgetRule('r', [], { budget: 20, period: '1mo', cost: { header: 'x-cost', default: 1 } }), ['20.00 currency units per month']],
  [windowRule('r', [], { limit: 1, period: '1h' }), ['1 request per hour']],
  [windowRule('r', [], { limit: 5, period: '1h', cost: 2 }), ['5 units per hour']],
  [concurrencyRule('r', [], 4), ['4 requests in flight']],
  [concurrencyRule('r', [], 1), ['1 request in flight']],
  [blockRule('r'), []],
  [unlimitedRule('r', { bearer: 'a' }), []],
])('%j', (text, expected) => {
  const { source, counters } = compiledRule(text)
  expect(limitTexts(source)).toEqual(expected)
  expect(counters).toHaveLength(expected.length)
})
