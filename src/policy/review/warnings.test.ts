import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, type PolicyText, policy, windowRule } from '../../../test/support/bundles/bundles.ts'
import { namedLimitsOf } from '../compile.ts'
import { parseBundle } from '../parse.ts'
import { madeUpKeyWarnings } from './warnings.ts'

const SLOTS = 2_000_000
const HOURLY = 1 / 3600

const budget = windowRule('month', ['header:x-key'], { limit: 1000, period: '1mo' })

describe('a rule by keys that clients choose, beside a budget by another', () => {
  test.each<[string, object]>([
    ['a bucket of one request an hour', bucketRule('b', ['header:x-user'], 1, HOURLY)],
    ['a bucket with the key of the budget too', bucketRule('b', ['header:x-key', 'query:user'], 1, HOURLY)],
    ['a window of an hour', windowRule('b', ['jwt:sub'], { limit: 5, period: '1h' })],
    ['another budget', windowRule('b', ['cookie:sid'], { limit: 5, period: '1d' })],
    ['tokens for an hour, which one request can take', llmRule('b', ['bearer'], { tokens_per_minute: 10, burst_tokens: 600 })],
    ['requests in flight for an hour', concurrencyRule('b', ['path:2'], 5, 3600)],
  ])('is warned of: %s', (_, rule) => {
    const warnings = warningsOf(SLOTS, policy('p', { rules: [budget] }), policy('q', { rules: [rule] }))
    const warned =
      /^policy "q", rule "b": clients that send 1,000 made-up values of \S+ a second .* holds the budgets of policy "p", rule "month":/
    expect(warnings.filter((text) => warned.test(text))).toHaveLength(1)
  })

  test.each<[string, object]>([
    ['records that do not last', bucketRule('b', ['header:x-user'], 100_000, 1)],
    ['keys of the budget alone', bucketRule('b', ['header:X-Key'], 1, HOURLY)],
    ['addresses', bucketRule('b', ['ip:address'], 1, HOURLY)],
    ['no keys', bucketRule('b', [], 1, HOURLY)],
  ])('is not, with %s', (_, rule) => {
    expect(warningsOf(SLOTS, policy('p', { rules: [budget] }), policy('q', { rules: [rule] }))).toEqual([])
  })

  test('is not in a table that has room for both, nor without budgets of callers', () => {
    const rule = bucketRule('b', ['header:x-user'], 1, HOURLY)
    expect(warningsOf(7_200_000, policy('p', { rules: [budget, rule] }))).toEqual([])
    expect(warningsOf(7_199_999, policy('p', { rules: [budget, rule] }))).toHaveLength(1)
    const short = windowRule('short', ['header:x-key'], { limit: 1000, period: '12h' })
    expect(warningsOf(SLOTS, policy('p', { rules: [short, rule] }))).toEqual([])
    const shared = windowRule('everybody', [], { limit: 1000, period: '1mo' })
    expect(warningsOf(SLOTS, policy('p', { rules: [shared, rule] }))).toEqual([])
  })

  test('is named ten times at most, with what a terminal would obey shown as its code', () => {
    const rules = Array.from({ length: 20 }, (_, i) => bucketRule(`r${i}`, ['query:a\u202e'], 1, HOURLY))
    const warnings = warningsOf(SLOTS, policy('p', { rules: [budget, ...rules] }))
    expect(warnings).toHaveLength(10)
    expect(warnings[0]).toContain('values of query:a\\u{202e} a second')
  })
})

function warningsOf(slots: number, ...policies: PolicyText[]): string[] {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)), 'json')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return madeUpKeyWarnings(namedLimitsOf(parsed.bundle), slots)
}
