import { describe, expect, test } from 'vitest'
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
import type { OverrideChange } from '../overrides/override.ts'
import { overriddenRule } from './overridden-rule.ts'
import type { PlanRule } from './plan.ts'

function changed(rule: object, change: OverrideChange): PlanRule {
  const found = overriddenRule(compiledRule(rule), change)
  if (typeof found === 'string') throw new Error(found)
  return found
}

const times = (factor: number): OverrideChange => ({ kind: 'multiply', factor })
const set = (fields: Record<string, unknown>): OverrideChange => ({ kind: 'set', fields })
const BUDGET = budgetRule('r', [], { budget: 10, cost: { header: 'x-cost', default: 1 }, warn_at_percent: [50] })

describe('multiply', () => {
  test.each([
    ['a bucket', bucketRule('r', [], 10, 2), 3, { tokensPerMs: 0.006, burst: 30, raisedFrom: 10 }, '30'],
    ['a rate', rateRule('r', [], { rate: '100/minute' }), 1.15, { tokensPerMs: 115 / 60_000, burst: 115 }, '115'],
    ['a small rate', rateRule('r', [], { rate: '0.5/minute' }), 3, { tokensPerMs: 1.5 / 60_000, burst: 3 }, '3'],
    ['a bucket, never below one request', bucketRule('r', [], 10, 2), 0.001, { burst: 1 }, '1'],
    ['a window, in whole requests', windowRule('r', [], { limit: 10, period: '1d' }), 0.25, { tokens: 2 }, '2'],
    ['a window, as people count', windowRule('r', [], { limit: 100, period: '1d' }), 1.15, { tokens: 115 }, '115'],
    ['a window, never below 1', windowRule('r', [], { limit: 10, period: '1d' }), 0.01, { tokens: 1 }, '1'],
    ['holds', concurrencyRule('r', [], 3), 2.5, { max: 7 }, '7'],
    ['a budget with its warnings', BUDGET, 0.5, { tokens: 5e9, warnings: [{ percent: 50, tokens: 2.5e9 }] }, '500'],
  ])('scales %s', (_, rule, factor, limit, limitText) => {
    const { counters, variantOf } = changed(rule, times(factor))
    expect(counters[0]!.limit).toMatchObject(limit)
    expect(counters[0]!.limitText).toBe(limitText)
    expect(counters[0]!.identity).toEqual(variantOf!.counters[0]!.identity)
  })

  test('scales all limits of an LLM rule', () => {
    const { counters, source } = changed(llmRule('r', [], { tokens_per_minute: 100, tokens_per_day: 1001, burst_tokens: 50 }), times(1.5))
    expect(counters.map(({ size }) => size)).toEqual([75, 1501])
    expect(source.algorithm_config).toMatchObject({ tokens_per_minute: 150, tokens_per_day: 1501, burst_tokens: 75 })
  })

  test('is written as a bundle could write it', () => {
    expect(changed(rateRule('r', [], { rate: '100/minute' }), times(3)).source.algorithm_config).toMatchObject({ rate: '300/minute' })
    expect(changed(rateRule('r', [], { rate: '1/second' }), times(1e-7)).source.algorithm_config).toMatchObject({
      rate: '0.0000001/second',
    })
  })

  test.each([
    [bucketRule('r', [], 1e14), 1e6, 'the burst would be 100000000000000000000: expected 1 to 999999999999999'],
    [bucketRule('r', [], 1, 1e-8), 1e-3, 'the rate per second would be 1e-11: expected 1e-9 to 999999999999999'],
    [windowRule('r', [], { limit: 9e14, period: '1d' }), 2, 'the limit would be 1800000000000000: expected 1 to 999999999999999'],
    [concurrencyRule('r', [], 1000), 1e6, 'the limit would be 1000000000: expected 1 to 1000000'],
    [BUDGET, 1e6, 'budget is above 9000000'],
    [bucketRule('r', [], 1), 0, 'multiply: expected a number above 0, up to 1000000'],
    [bucketRule('r', [], 1), Number.NaN, 'multiply: expected a number above 0, up to 1000000'],
    [bucketRule('r', [], 1), 1e7, 'multiply: expected a number above 0, up to 1000000'],
    [blockRule('r'), 2, 'a rule with algorithm block has no limits: use unlimited or block'],
  ])('that no bundle could say is refused: %j × %d', (rule, factor, why) => {
    expect(overriddenRule(compiledRule(rule), times(factor))).toBe(why)
  })
})

describe('set', () => {
  test.each([
    [bucketRule('r', [], 10, 2), { burst: 40 }, { tokensPerMs: 0.002, burst: 40 }],
    [rateRule('r', [], { rate: '60/minute' }), { tokens_per_second: 5 }, { tokensPerMs: 0.005, burst: 60 }],
    [rateRule('r', [], { rate: '60/minute' }), { rate: '120/minute' }, { tokensPerMs: 0.002, burst: 120 }],
    [bucketRule('r', [], 10, 2), { rate: '60/minute' }, { tokensPerMs: 0.001, burst: 10 }],
    [windowRule('r', [], { limit: 10, period: '1d' }), { limit: 99 }, { tokens: 99 }],
    [concurrencyRule('r', [], 3), { max_in_flight: 4 }, { max: 4 }],
    [BUDGET, { budget: 2.5 }, { tokens: 2.5e9 }],
  ])('changes limits: %j, %j', (rule, fields, limit) => {
    expect(changed(rule, set(fields)).counters[0]!.limit).toMatchObject(limit)
  })

  test.each([
    [
      bucketRule('r', [], 10),
      { burst: 0 },
      'set.burst: expected a number of at least 1, because below 1 no request would ever pass, got 0',
    ],
    [bucketRule('r', [], 10), { burst: '9' }, 'set.burst: expected a number of at least 1, got "9" — remove the quotes?'],
    [bucketRule('r', [], 10), {}, 'set: expected rate, tokens_per_second, burst, but it is empty'],
    [bucketRule('r', [], 10), { cost: 2 }, 'set: expected rate, tokens_per_second, burst, got "cost"'],
    [bucketRule('r', [], 10), { brust: 2 }, 'set: expected rate, tokens_per_second, burst, got "brust" — did you mean "burst"?'],
    [
      bucketRule('r', [], 10),
      { rate: '1/second', tokens_per_second: 1 },
      'set.rate: expected either rate or tokens_per_second, not both, got "1/second"',
    ],
    [windowRule('r', [], { limit: 1, period: '1d' }), { period: '1h' }, 'set: expected limit, got "period"'],
    [
      llmRule('r', [], { tokens_per_minute: 9 }),
      { tokens_per_day: 9 },
      'set: expected tokens_per_minute, burst_tokens, got "tokens_per_day"',
    ],
    [concurrencyRule('r', [], 3), { hold_seconds: 4 }, 'set: expected max_in_flight, got "hold_seconds"'],
    [
      bucketRule('r', [], 10),
      { burst: null, rate: 5 },
      'set.rate: expected a rate per second, minute, hour or day, such as 100/minute, got 5; set.burst: expected a number of at least 1, got null',
    ],
    [
      rateRule('r', [], { rate: '1/minute' }),
      { rate: '80000000000000000000/day' },
      'the burst would be 80000000000000000000: expected 1 to 999999999999999',
    ],
    [blockRule('r'), { limit: 1 }, 'set: a rule with algorithm block has no limits to set: use unlimited or block'],
  ])('of what an override cannot change is refused in a sentence: %j, %j', (rule, fields, problem) => {
    expect(overriddenRule(compiledRule(rule), set(fields))).toBe(problem)
  })
})

test('unlimited and block replace the limits of any rule', () => {
  for (const rule of [
    bucketRule('r', [], 1),
    llmRule('r', [], { tokens_per_minute: 9 }),
    blockRule('r'),
    unlimitedRule('r', { bearer: 'a' }),
  ]) {
    expect(changed(rule, { kind: 'unlimited' })).toMatchObject({ counters: [], block: undefined, needsBody: false })
    expect(changed(rule, { kind: 'block' })).toMatchObject({ counters: [], block: { cutsStreams: false }, needsBody: false })
    expect(changed(rule, { kind: 'block', cutsStreams: true })).toMatchObject({ counters: [], block: { cutsStreams: true } })
  }
})

test('a change of all policies fits no rule', () => {
  expect(overriddenRule(compiledRule(bucketRule('r', [], 1)), { kind: 'shadow' })).toBeTypeOf('string')
})
