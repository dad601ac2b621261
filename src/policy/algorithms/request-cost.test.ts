import { describe, expect, test } from 'vitest'
import { rateRule, windowRule } from '../../../test/support/bundles/bundles.ts'
import { compiledRule, problemsOf } from '../../../test/support/bundles/compiled-rule.ts'
import { requestFacts } from '../../../test/support/costs/request-facts.ts'
import { GIVEN } from '../../costs/request-costs.ts'
import type { PlanRule } from '../plan.ts'

const ALGORITHMS = [
  ['token_bucket', (config: object) => rateRule('r', [], { rate: '100/minute', ...config }), 'burst'],
  ['fixed_window', (config: object) => windowRule('r', [], { limit: 100, period: '1d', ...config }), 'limit'],
] as const

describe.each(ALGORITHMS)('a cost in %s', (_, ruleText, sizeName) => {
  const rule = (config: object): PlanRule => compiledRule(ruleText(config))
  const errors = (cost: unknown): string[] => problemsOf(ruleText({ cost })).errors
  const warnings = (config: object): string[] => problemsOf(ruleText(config)).warnings
  const AMOUNT = 'expected a number above 0 (at least 1e-9) and up to 999999999999999'

  test('is 1 without one, and may then be pre-fetched', () => {
    for (const config of [{}, { cost: 1 }]) expect(rule(config).cost).toBe(GIVEN)
  })

  test.each([2, 0.5, 1e-9, 999_999_999_999_999])('may be %d, and is never pre-fetched', (cost) => {
    expect(rule({ cost }).cost.of(requestFacts())).toBe(cost)
    expect(rule({ cost }).counters[0]!.isLeasable).toBe(false)
  })

  test('may be in a header field of any case, 1 without it and without a maximum unless there are others', () => {
    const plain = rule({ cost: { header: 'X-Cost' } })
    expect(plain.cost.header).toBe('x-cost')
    expect(plain.counters[0]!.isLeasable).toBe(false)
    const costs = (each: PlanRule) => [undefined, '5', '5000'].map((text) => each.cost.of(requestFacts({ headerText: () => text })))
    expect(costs(plain)).toEqual([1, 5, 5000])
    expect(costs(rule({ cost: { header: 'x-cost', default: 3, max: 50 } }))).toEqual([3, 5, 50])
  })

  test.each([
    [0, [`algorithm_config.cost: ${AMOUNT}, got 0`]],
    [-1, [`algorithm_config.cost: ${AMOUNT}, got -1`]],
    [1e16, [`algorithm_config.cost: ${AMOUNT}, got 10000000000000000`]],
    ['5', [`algorithm_config.cost: ${AMOUNT}, or an object with header, default and max, got "5" — remove the quotes?`]],
    [null, [`algorithm_config.cost: ${AMOUNT}, or an object with header, default and max, got null`]],
    [[5], [`algorithm_config.cost: ${AMOUNT}, or an object with header, default and max, got a list`]],
    [{}, ['algorithm_config.cost.header: expected the name of a header field, but it is missing']],
    [{ header: 'x cost' }, ['algorithm_config.cost.header: expected the name of a header field, got "x cost"']],
    [{ header: 'x'.repeat(300) }, [`algorithm_config.cost.header: expected at most 256 characters, got "${'x'.repeat(60)}…"`]],
    [{ header: 'x', default: 0 }, [`algorithm_config.cost.default: ${AMOUNT}, got 0`]],
    [{ header: 'x', max: -1 }, [`algorithm_config.cost.max: ${AMOUNT}, got -1`]],
    [{ header: 'x', default: 5, max: 4 }, ['algorithm_config.cost.default: expected a number no higher than max, got 5']],
    [{ header: 'x', defualt: 5 }, ['algorithm_config.cost: unknown field "defualt": did you mean "default"?']],
    [
      { header: 7, default: '1', max: null },
      [
        'algorithm_config.cost.header: expected the name of a header field, got 7',
        `algorithm_config.cost.default: ${AMOUNT}, got "1" — remove the quotes?`,
        `algorithm_config.cost.max: ${AMOUNT}, got null`,
      ],
    ],
  ])('of %j is refused', (cost, expected) => {
    expect(errors(cost)).toEqual(expected)
  })

  test('that the limit can never cover is warned of, unless it may be overdrawn', () => {
    expect(warnings({ cost: 100 })).toEqual([])
    expect(warnings({ cost: 101 })).toEqual([
      `algorithm_config: each request costs 101 (cost), more than ${sizeName} (100) can ever hold: it is always rejected`,
    ])
    expect(warnings({ cost: { header: 'x-cost', default: 101 } })).toEqual([
      `algorithm_config: a request without x-cost costs 101 (cost.default), more than ${sizeName} (100) can ever hold: it is always rejected`,
    ])
    expect(warnings({ cost: 101, when_over: 'charge' })).toEqual([])
  })

  test('that a client could make endless is warned of where it may be overdrawn', () => {
    expect(warnings({ cost: { header: 'x-cost' }, when_over: 'charge' })).toEqual([
      'algorithm_config: one request with a high x-cost can leave a debt that lasts for years: set cost.max',
    ])
    expect(warnings({ cost: { header: 'x-cost', max: 10 }, when_over: 'charge' })).toEqual([])
  })
})

describe.each(ALGORITHMS)('when_over in %s', (_, ruleText) => {
  test('is reject without it', () => {
    for (const config of [{}, { when_over: 'reject' }])
      expect(compiledRule(ruleText(config)).counters[0]!.limit).toMatchObject({ canOverdraw: false })
    expect(compiledRule(ruleText({ when_over: 'charge' })).counters[0]!.limit).toMatchObject({ canOverdraw: true })
  })

  test('is no part of a counter’s identity', () => {
    const [one, other] = [{}, { when_over: 'charge' }].map((config) => compiledRule(ruleText(config)).counters[0]!.identity)
    expect(one).toEqual(other)
  })

  test.each([
    ['charg', ' — did you mean "charge"?'],
    ['allow', ''],
    [true, ''],
  ])('%s is refused', (whenOver, hint) => {
    expect(problemsOf(ruleText({ when_over: whenOver })).errors).toEqual([
      `algorithm_config.when_over: expected "reject" or "charge", got ${JSON.stringify(whenOver)}${hint}`,
    ])
  })
})
