import { expect, test } from 'vitest'
import { addTokens, estimatedTokens, MAX_TOKENS, maxCompletionTokens } from './usage.ts'

test.each([
  [50, 70, 50],
  [70, 50, 50],
  [50, undefined, 50],
  [undefined, 70, 70],
  [undefined, undefined, 1000],
  [5000, undefined, 5000],
])('of %s requested and %s configured, %i are reserved for a completion', (requested, configured, reserved) => {
  expect(maxCompletionTokens({ requestedTokens: requested }, configured)).toBe(reserved)
})

test.each([
  [undefined, undefined, 4, 4000],
  [undefined, 70, 4, 70],
  [200, undefined, 4, 200],
  [undefined, undefined, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
])('of %s requested and %s configured for %i choices, %i are reserved', (requested, configured, choices, reserved) => {
  expect(maxCompletionTokens({ requestedTokens: requested, choices }, configured)).toBe(reserved)
})

test.each([
  [undefined, undefined, 3000, 3000],
  [undefined, undefined, 1, 1000],
  [undefined, 70, 3000, 70],
])('of %s requested and %s configured beside %i that may not hold, %i are reserved', (requested, configured, foreign, reserved) => {
  expect(maxCompletionTokens({ requestedTokens: requested, foreignTokens: foreign }, configured)).toBe(reserved)
})

test('sums of tokens are never more than can be counted exactly', () => {
  expect([addTokens(2, 3), addTokens(MAX_TOKENS, 1), addTokens(MAX_TOKENS, MAX_TOKENS)]).toEqual([5, MAX_TOKENS, MAX_TOKENS])
})

test('four characters are a token, and what is begun is one', () => {
  expect([0, 1, 3, 4, 5, 8, 9].map(estimatedTokens)).toEqual([0, 1, 1, 1, 2, 2, 3])
})
