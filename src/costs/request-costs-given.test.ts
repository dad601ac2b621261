import { expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import { checkedGiven, GIVEN } from './request-costs.ts'

test('what is given with the question is taken, whatever is known beside it', () => {
  const body = { promptTokens: 50, requestedTokens: 70, choices: 2, isStream: false, model: undefined }
  expect([0, 1, 2.5, 1e300].map((given) => GIVEN.of(requestFacts({ path: '/v1/chat', body, given, isGiven: true })))).toEqual([
    0, 1, 2.5, 1e300,
  ])
})

test('it needs no body, may be pre-fetched and is taken for good', () => {
  expect(GIVEN).toMatchObject({ needsBody: false, isLeasable: true, settling: undefined })
})

test('a number of at least 0 may be given', () => {
  expect([0, 1, 0.1, Number.MAX_VALUE].map((given) => checkedGiven(given))).toEqual([0, 1, 0.1, Number.MAX_VALUE])
})

test.each([
  [-1, '-1'],
  [-Number.MIN_VALUE, '-5e-324'],
  [Number.NaN, 'NaN'],
  [Number.POSITIVE_INFINITY, 'Infinity'],
  ['5', '"5"'],
  [null, 'null'],
  [5n, '5'],
])('%s may not, and is told back', (given, shown) => {
  expect(() => checkedGiven(given as number)).toThrow(new RangeError(`cost: expected a finite number of at least 0, got ${shown}`))
})
