import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import { tokenCounts } from '../llm/usage.ts'
import { ModelPrice, PriceTable } from './price-table.ts'
import { settledBy } from './settling-record.ts'

const FREE = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 }
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

const VERSIONED = [
  'gpt-4o',
  'gpt-4o-2024-05-13',
  'haiku',
  'haiku@20251001',
  'opus-20250101',
  'sonnet@*',
  'gemini-001',
  'model-mini',
  'bedrock-v1',
  'titan-v2:0',
  'falcon-180',
  '*',
]

test.each([
  ['gpt-4o-2024-08-06', 'gpt-4o'],
  ['gpt-4o-0806', 'gpt-4o'],
  ['gpt-4o-2411', 'gpt-4o'],
  ['gpt-4o-20240513', 'gpt-4o-2024-05-13'],
  ['gpt-4o-2024-05-13', 'gpt-4o-2024-05-13'],
  ['haiku-20251001', 'haiku@20251001'],
  ['haiku@20251001', 'haiku@20251001'],
  ['haiku@20260101', 'haiku'],
  ['opus', 'opus-20250101'],
  ['opus@20250101', 'opus-20250101'],
  ['opus-20260101', 'opus-20250101'],
  ['sonnet-20250101', 'sonnet@*'],
  ['sonnet', 'sonnet@*'],
  ['gemini', 'gemini-001'],
  ['gemini-002', 'gemini-001'],
  ['bedrock-v1:0', 'bedrock-v1'],
  ['bedrock-v1:7', '*'],
  ['titan-v2', 'titan-v2:0'],
  ['titan-v2:0', 'titan-v2:0'],
  ['gpt-4o-2024-05-13:0', 'gpt-4o-2024-05-13'],
  ['gpt-4o-0513:0', 'gpt-4o'],
  ['opus-20250101:0', 'opus-20250101'],
  ['gpt-4o-180', '*'],
  ['gpt-4o-1024', '*'],
  ['falcon', '*'],
  ['falcon-405', '*'],
  ['bedrock', '*'],
  ['model', '*'],
  ['model-mini-2026-01-01', 'model-mini'],
  ['gpt-4o-mini', '*'],
  ['gpt-4o-2024-08-06-preview', '*'],
  ['gpt-4o-32', '*'],
  ['gpt-4o-9999', '*'],
  ['eu.haiku-20251001', '*'],
  ['-20251001', '*'],
  ['@20251001', '*'],
])('%s and %s are one model', (model, pattern) => {
  const table = new PriceTable(VERSIONED.map((each, i) => [each, new ModelPrice({ ...FREE, input: i })] as const))
  for (let twice = 0; twice < 2; twice++) expect(VERSIONED[table.priceOf(model).record.numbers[0]!]).toBe(pattern)
  expect(table.isUnlisted(model)).toBe(pattern === '*')
})

test('an unknown version of a model costs at least what each known one does', () => {
  const price = fc.record({ input: fc.nat(9), cachedInput: fc.nat(9), cacheWrite: fc.nat(9), cacheWrite1h: fc.nat(9), output: fc.nat(9) })
  const prices = fc.record({
    own: price,
    above: fc.option(fc.record({ more: price, tokens: fc.integer({ min: 1, max: 30 }) })),
    perRequest: fc.nat(9),
  })
  const used = fc.record({
    input: fc.nat(40),
    output: fc.nat(40),
    cachedInput: fc.nat(20),
    cacheWrite: fc.nat(20),
    cacheWrite1h: fc.nat(20),
  })
  fc.assert(
    fc.property(fc.array(prices, { minLength: 1, maxLength: 4 }), used, (entries, { input, output, ...cached }) => {
      const models = entries.map(
        ({ own, above, perRequest }) =>
          new ModelPrice({ ...own, perRequest, above: above ? { ...above.more, tokens: above.tokens } : undefined }),
      )
      const table = new PriceTable([...models.map((model, i) => [`m-00${i}`, model] as const), ['*', new ModelPrice(FREE)]])
      const usage = { tokens: tokenCounts(input, output, cached), isStreamed: false }
      const unknown = table.priceOf('m-009')
      for (const model of models) {
        expect(unknown.settled(0, usage)).toBeGreaterThanOrEqual(model.settled(0, usage)!)
        expect(unknown.reserved(input, output)).toBeGreaterThanOrEqual(model.reserved(input, output))
      }
    }),
    { numRuns: runs(200) },
  )
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
