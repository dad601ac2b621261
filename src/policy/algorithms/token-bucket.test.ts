import { describe, expect, test } from 'vitest'
import { rateRule } from '../../../test/support/bundles/bundles.ts'
import { compiledRule, problemsOf } from '../../../test/support/bundles/compiled-rule.ts'
import type { BucketLimit } from '../../limiter/limit.ts'
import type { PlanCounter } from './compiled-rule.ts'

function counter(config: object): PlanCounter {
  return compiledRule(rateRule('r', [], config)).counters[0]!
}

function errors(config: object): string[] {
  return problemsOf(rateRule('r', [], config)).errors
}

describe('a rate', () => {
  test.each([
    ['100/second', 100, 0.1],
    ['60/minute', 60, 0.001],
    ['100/minute', 100, 100 / 60_000],
    ['3600/hour', 3600, 0.001],
    ['86400/day', 86_400, 0.001],
    ['2.5/second', 2.5, 0.0025],
    ['0.5/minute', 1, 0.5 / 60_000],
    ['1/day', 1, 1 / 86_400_000],
  ])('%s is a bucket of its number, at least 1, that is refilled in that time', (rate, burst, tokensPerMs) => {
    expect(counter({ rate }).limit as BucketLimit).toMatchObject({ burst, tokensPerMs })
  })

  test('may have a burst of its own', () => {
    expect(counter({ rate: '100/minute', burst: 5 }).limit).toMatchObject({ burst: 5, tokensPerMs: 100 / 60_000 })
  })

  test('is the same limit of the same counter as the one in tokens per second', () => {
    const [written, divided] = [counter({ rate: '60/minute' }), counter({ tokens_per_second: 1, burst: 60 })]
    expect(written).toEqual(divided)
  })

  test.each([
    ['100/min', '100/minute'],
    ['100/minutes', '100/minute'],
    ['100 / minute', '100/minute'],
    ['100r/s', '100/second'],
    ['5 r/m', '5/minute'],
    ['100 per hour', '100/hour'],
    ['7/d', '7/day'],
    ['1.5/hrs', '1.5/hour'],
    ['100', '100/minute'],
    ['5/week', '100/minute'],
    ['1e3/second', '100/minute'],
    ['-5/second', '100/minute'],
    ['NaN/second', '100/minute'],
    ['0x10/second', '100/minute'],
    ['', '100/minute'],
  ])('that is written as %s is refused, with one that would be accepted or a good example', (rate, such) => {
    expect(errors({ rate })).toEqual([
      `algorithm_config.rate: expected a rate per second, minute, hour or day, such as ${such}, got ${JSON.stringify(rate)}`,
    ])
  })

  test.each([100, null, {}, ['100/minute']])('that is no text is refused: %j', (rate) => {
    expect(errors({ rate })).toEqual([
      expect.stringMatching(/^algorithm_config\.rate: expected a rate per second, minute, hour or day, such as 100\/minute, got /),
    ])
  })

  test.each(['0.000000001/day', `${'9'.repeat(16)}/second`])('of %s is refused: it is out of range', (rate) => {
    expect(errors({ rate })).toEqual([`algorithm_config.rate: expected a rate from 1e-9 to 999999999999999 per second, got "${rate}"`])
  })

  test('beside tokens_per_second is refused, even with another problem', () => {
    const both = 'algorithm_config.rate: expected either rate or tokens_per_second, not both, got "1/second"'
    expect(errors({ rate: '1/second', tokens_per_second: 1 })).toEqual([both])
    expect(errors({ rate: '1/second', tokens_per_second: 1, burst: 'x' })).toEqual([expect.stringContaining('.burst: '), both])
  })

  test('is suggested where neither is there', () => {
    expect(errors({ burst: 5 })).toEqual([
      'algorithm_config.tokens_per_second: expected a number of tokens per second, or rate (for 100 requests a minute write rate: 100/minute), but it is missing',
    ])
  })
})

test('tokens_per_second needs a burst', () => {
  expect(errors({ tokens_per_second: 1 })).toEqual(['algorithm_config.burst: expected a number of at least 1, but it is missing'])
})
