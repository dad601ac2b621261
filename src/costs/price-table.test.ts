import { expect, test } from 'vitest'
import { tokenCounts } from '../llm/usage.ts'
import { ModelPrice, PriceTable } from './price-table.ts'
import { settledBy } from './settling-record.ts'

const PATTERNS = ['gpt-5', 'gpt-5*', 'gpt-5-mini*', 'gpt-*', 'claude-opus-4', '*']
const prices = PATTERNS.map(
  (pattern, i) => [pattern, new ModelPrice({ input: i, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 })] as const,
)

test.each([
  ['gpt-5', 'gpt-5'],
  ['gpt-5-turbo', 'gpt-5*'],
  ['gpt-5-mini', 'gpt-5-mini*'],
  ['gpt-5-mini-2026', 'gpt-5-mini*'],
  ['gpt-4o', 'gpt-*'],
  ['gpt-', 'gpt-*'],
  ['gpt', '*'],
  ['GPT-5', '*'],
  ['claude-opus-4', 'claude-opus-4'],
  ['claude-opus-4-1', '*'],
  ['', '*'],
  ['*', '*'],
  ['__proto__', '*'],
  ['constructor', '*'],
  [undefined, '*'],
])('the model %s has the price of %s, in whatever order the patterns are written', (model, pattern) => {
  for (const list of [prices, prices.toReversed()]) {
    expect(PATTERNS[new PriceTable(list).priceOf(model).record.numbers[0]!]).toBe(pattern)
  }
})

test('models with the prices of earlier versions have their kind of settling record, and any others a new one', () => {
  const four = { input: 1, cachedInput: 2, cacheWrite: 3, cacheWrite1h: 3, output: 5 }
  expect(new ModelPrice(four).record).toEqual({ kind: 3, numbers: [1, 2, 3, 5] })
  expect(new ModelPrice({ ...four, cacheWrite1h: 4 }).record).toEqual({ kind: 6, numbers: [0, 1, 2, 3, 4, 5] })
  expect(new ModelPrice({ ...four, perRequest: 9 }).record).toEqual({ kind: 6, numbers: [9, 1, 2, 3, 3, 5] })
  const above = { ...four, tokens: 1000, output: 50 }
  expect(new ModelPrice({ ...four, above }).record).toEqual({ kind: 6, numbers: [0, 1, 2, 3, 3, 5, 1000, 1, 2, 3, 3, 50] })
})

test('a token of an earlier version is settled by its four prices, however long a cache keeps what was written', () => {
  const tokens = tokenCounts(10_000, 1000, { cachedInput: 1000, cacheWrite: 4000, cacheWrite1h: 2000 })
  const usage = { tokens, isStreamed: false }
  // Trillionths for each token.
  expect(settledBy({ kind: 3, numbers: [2000, 1000, 3000, 8000] }, 0, usage)).toBe(5000 * 2 + 1000 + 4000 * 3 + 1000 * 8)
})
