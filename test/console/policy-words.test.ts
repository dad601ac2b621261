import { describe, expect, test } from 'vitest'
import { ruleWords, selectorWords } from '../../console/policy-words.ts'
import type { RuleJson } from '../../src/admin/api/types.ts'

const LAST_MINUTE = { rejected: 0, would_reject: 0 }

function words(algorithm: string, algorithm_config: RuleJson['algorithm_config'], rest: Partial<RuleJson> = {}): string {
  return ruleWords({ name: 'r', limit_keys: ['header:x-key'], algorithm, algorithm_config, last_minute: LAST_MINUTE, ...rest })
}

describe('a rule in words', () => {
  test.for([
    ['token_bucket', { rate: '10/minute', burst: 20 }, '10 requests per minute, burst 20, per header:x-key'],
    ['token_bucket', { rate: '1000/hour' }, '1,000 requests per hour, per header:x-key'],
    ['token_bucket', { tokens_per_second: 0.5, burst: 5 }, '30 requests per minute, burst 5, per header:x-key'],
    ['token_bucket', { tokens_per_second: 1e-6, burst: 1 }, '0.0864 requests per day, burst 1, per header:x-key'],
    [
      'token_bucket',
      { rate: '5/second', cost: 2, when_over: 'charge' },
      '5 units per second, each request takes 2, may go into debt, per header:x-key',
    ],
    ['token_bucket', { rate: '5/second', cost: { header: 'X-Cost', default: 1 } }, '5 units per second, cost in X-Cost, per header:x-key'],
    ['fixed_window', { limit: 1000, period: '1d', timezone: 'UTC' }, '1,000 requests per day, per header:x-key'],
    ['fixed_window', { limit: 5, period: '1w', anchor: 'sunday' }, '5 requests per week (from Sunday), per header:x-key'],
    ['fixed_window', { limit: 5, period: '1w', anchor: 'monday' }, '5 requests per week, per header:x-key'],
    [
      'fixed_window',
      { limit: 5, period: '1mo', anchor: 15, timezone: 'Europe/Berlin' },
      '5 requests per month (from day 15, Europe/Berlin), per header:x-key',
    ],
    ['fixed_window', { limit: 5, period: '15m', timezone: 'Europe/Berlin' }, '5 requests per 15 minutes (Europe/Berlin), per header:x-key'],
    [
      'token_bucket_llm',
      { tokens_per_minute: 1000, tokens_per_day: 9000 },
      '1,000 tokens per minute, 9,000 tokens per day, per header:x-key',
    ],
    ['token_bucket_llm', { tokens_per_day: 9, warn_at_percent: [80, 95] }, '9 tokens per day, warns at 80, 95 %, per header:x-key'],
    ['token_bucket_llm', { tokens_per_minute: 1, burst_tokens: 9 }, '1 token per minute, burst 9 tokens, per header:x-key'],
    [
      'token_bucket_llm',
      {
        tokens_per_day: 50_000,
        max_completion_tokens: 4000,
        count: { input: 1, cached_input: 0.1, cache_write: 1.25, output: 5 },
        reserve: { first: 2000, step: 1000 },
      },
      '50,000 tokens per day, completions up to 4,000 tokens, cached input counts 0.1 times, cache writes count 1.25 times, output counts 5 times, streams reserve 2,000 tokens at first and 1,000 at a time, per header:x-key',
    ],
    [
      'token_bucket_llm',
      { tokens_per_day: 9, count: { cached_input: 0 } },
      '9 tokens per day, cached input counts nothing, per header:x-key',
    ],
    [
      'token_bucket_llm',
      { tokens_per_day: 9, count: { input: 1, cached_input: 1, cache_write: 1, output: 1 }, reserve: {} },
      '9 tokens per day, every token counts once, streams reserve 2,000 tokens at first and 1,000 at a time, per header:x-key',
    ],
    [
      'cost_budget',
      { budget: 20, period: '1mo', timezone: 'UTC', prices: 'main', reserve: { first: 500, step: 100 }, warn_at_percent: [80] },
      '20.00 currency units per month, prices main, streams reserve 500 tokens at first and 100 at a time, warns at 80 %, per header:x-key',
    ],
    [
      'cost_budget',
      { budget: 20, period: '1mo', timezone: 'UTC', prices: 'main' },
      '20.00 currency units per month, prices main, per header:x-key',
    ],
    ['concurrency', { max_in_flight: 5, hold_seconds: 60 }, '5 requests in flight, per header:x-key'],
    ['unlimited', {}, 'no limit'],
    ['block', {}, 'blocked'],
  ] as const)('%s %o', ([algorithm, config, expected]) => {
    expect(words(algorithm, config)).toBe(expected)
  })

  test('says whom it is for', () => {
    expect(words('unlimited', {}, { match: { 'header:x-plan': ['gold', 'silver*'] } })).toBe(
      'no limit, only where header:x-plan is gold or silver*',
    )
    expect(words('unlimited', {}, { match: { bearer: '*' } })).toBe('no limit, only where bearer is present')
    expect(words('block', {}, { match: 'else' })).toBe('blocked, where no other rule of the policy matches')
    expect(words('concurrency', { max_in_flight: 1 }, { limit_keys: [] })).toBe('1 request in flight, for everybody together')
    expect(words('concurrency', { max_in_flight: 1 }, { limit_keys: ['ip:address', 'bearer'] })).toBe(
      '1 request in flight, per ip:address and bearer',
    )
  })
})

test.for([
  [{}, 'every path'],
  [{ pathPrefix: '/' }, 'every path'],
  [
    { pathPrefix: '/api', methods: ['GET', 'POST'], hosts: ['a.example.com', 'b.example.com'] },
    'GET, POST below /api on a.example.com or b.example.com',
  ],
  [{ pathExact: '/x', exceptPaths: ['/x'] }, '/x, except /x'],
  [{ hosts: ['a', 'b', 'c', 'd', 'e'] }, 'every path on a or b or c and 2 more'],
  [{ domain: 'd', descriptors: { 'descriptor:a': 'b' } }, 'gRPC domain d, descriptor:a is b'],
] as const)('a selector in words: %o', ([selector, expected]) => {
  expect(selectorWords(selector)).toBe(expected)
})

test('a rule for which requests wait says for how long', () => {
  expect(words('token_bucket', { rate: '10/minute' }, { wait_seconds: 2.5 })).toBe(
    '10 requests per minute, per header:x-key, requests wait up to 2.5 s',
  )
})
