import { expect, test } from 'vitest'
import { ModelPrice, PriceTable } from './price-table.ts'

const PATTERNS = ['gpt-5', 'gpt-5*', 'gpt-5-mini*', 'gpt-*', 'claude-opus-4', '*']
const prices = PATTERNS.map((pattern, i) => [pattern, new ModelPrice({ input: i, cachedInput: 0, cacheWrite: 0, output: 0 })] as const)

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
    expect(PATTERNS[new PriceTable(list).priceOf(model).input]).toBe(pattern)
  }
})
