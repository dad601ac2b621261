import { describe, expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { tokenCounts } from '../llm/usage.ts'
import { AMBIGUOUS, type Usage } from './cost.ts'
import { BudgetCost } from './llm-costs.ts'
import { ModelPrice, PriceTable } from './price-table.ts'
import { UnseenSettler } from './unseen-prompt.ts'

// 2, 0.5, 2.5, 4 and 8 units for a million tokens: so many thousand billionths for each.
const BIG = new ModelPrice({ input: 2_000_000, cachedInput: 500_000, cacheWrite: 2_500_000, cacheWrite1h: 4_000_000, output: 8_000_000 })
const OTHER = new ModelPrice({
  input: 10_000_000,
  cachedInput: 10_000_000,
  cacheWrite: 10_000_000,
  cacheWrite1h: 10_000_000,
  output: 40_000_000,
})
// Another price list above 1000 tokens of input, and a hundredth of a unit for each request.
const LONG = new ModelPrice({
  ...{ input: 1_000_000, cachedInput: 1_000_000, cacheWrite: 1_000_000, cacheWrite1h: 1_000_000, output: 1_000_000 },
  above: { tokens: 1000, input: 2_000_000, cachedInput: 500_000, cacheWrite: 3_000_000, cacheWrite1h: 3_000_000, output: 4_000_000 },
  perRequest: 10_000_000,
})
const PRICES = new PriceTable([
  ['big*', BIG],
  ['long', LONG],
  ['*', OTHER],
])
const FIELD = { header: 'x-cost', missing: 5, max: 2_000_000_000 }

const priced = new BudgetCost(PRICES, undefined)

function body(facts: Partial<LlmRequest> = {}): LlmRequest {
  return { promptTokens: 100, requestedTokens: 50, choices: 1, isStream: false, model: 'big-1', ...facts }
}

function settled(usage: Usage, facts = requestFacts({ body: body() }), cost = priced): number | undefined {
  return cost.forRequest(facts).settled(cost.of(facts), usage)
}

describe('a reservation', () => {
  test("is the prompt at the dearest of its prices and the longest completion, by the body's model", () => {
    expect(priced.of(requestFacts({ body: body() }))).toBe(100 * 4000 + 50 * 8000)
    expect(priced.of(requestFacts({ body: body({ requestedTokens: undefined, choices: 2 }) }))).toBe(100 * 4000 + 2 * 1000 * 8000)
    expect(priced.of(requestFacts({ body: body(), path: '/v1/embeddings' }))).toBe(100 * 4000)
    expect(priced.of(requestFacts({ body: body(), path: '/v1/messages/count_tokens' }))).toBe(0)
  })

  test('has the prices of a long input where the estimate is one, and the price of the request itself', () => {
    const at = (promptTokens: number): number => priced.of(requestFacts({ body: body({ model: 'long', promptTokens }) }))
    expect(at(1000)).toBe(1000 * 1000 + 50 * 1000 + 10_000_000)
    expect(at(1001)).toBe(1001 * 3000 + 50 * 4000 + 10_000_000)
  })

  test('costs as much as any other model where the model is unknown or not said', () => {
    for (const model of ['small', 'BIG-1', undefined]) {
      expect(priced.of(requestFacts({ body: body({ model }) }))).toBe(100 * 10_000 + 50 * 40_000)
    }
  })

  test('without a body is the default bound of any other model', () => {
    expect(priced.of(requestFacts())).toBe(1000 * 40_000)
  })

  test('never exceeds what can be counted', () => {
    const huge = body({ promptTokens: Number.MAX_SAFE_INTEGER, requestedTokens: Number.MAX_SAFE_INTEGER })
    expect(priced.of(requestFacts({ body: huge }))).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('is the number given with the question, in units of the currency', () => {
    for (const cost of [priced, new BudgetCost(undefined, FIELD)]) {
      expect(cost.of(requestFacts({ body: body(), isGiven: true, given: 0.07 }))).toBe(70_000_000)
      expect(cost.of(requestFacts({ isGiven: true, given: 0 }))).toBe(0)
    }
  })
})

describe('a settlement', () => {
  const tokens = tokenCounts(90, 20)

  test('prices what was used as the reservation did', () => {
    expect(settled({ tokens, isStreamed: false })).toBe(90 * 2000 + 20 * 8000)
    expect(settled({ tokens, isStreamed: true })).toBe(90 * 2000 + 20 * 8000)
    expect(settled({ tokens, isStreamed: false }, requestFacts({ body: body({ model: 'x' }) }))).toBe(90 * 10_000 + 20 * 40_000)
  })

  test('prices cached tokens apart, and those that are kept for an hour', () => {
    const cached = tokenCounts(90, 20, { cachedInput: 40, cacheWrite: 10, cacheWrite1h: 4 })
    expect(settled({ tokens: cached, isStreamed: false })).toBe(40 * 2000 + 40 * 500 + 6 * 2500 + 4 * 4000 + 20 * 8000)
  })

  test('prices a request with a long input as a whole by its own prices, and the request itself', () => {
    const long = requestFacts({ body: body({ model: 'long' }) })
    const cost = (input: number): number | undefined =>
      settled({ tokens: tokenCounts(input, 20, { cachedInput: 40 }), isStreamed: false }, long)
    expect(cost(1000)).toBe(1000 * 1000 + 20 * 1000 + 10_000_000)
    expect(cost(1001)).toBe(961 * 2000 + 40 * 500 + 20 * 4000 + 10_000_000)
    expect(settled('nothing', long)).toBe(0)
  })

  test('makes nothing cheaper by more cached tokens than the prompt has', () => {
    for (const [cachedInput, cacheWrite] of [
      [91, 0],
      [90, 1],
      [0, 91],
      [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ]) {
      const usage = { tokens: tokenCounts(90, 20, { cachedInput: cachedInput!, cacheWrite: cacheWrite! }), isStreamed: false }
      expect(settled(usage)).toBe(90 * 2000 + 20 * 8000)
    }
  })

  test('gives everything back where nothing was used, and keeps the reservation where that is unknown', () => {
    expect(settled('nothing')).toBe(0)
    expect(settled('unknown')).toBeUndefined()
    expect(settled({ tokens: undefined, isStreamed: false })).toBeUndefined()
  })

  test('tells of a model without a price of its own, also where a part of the prompt lies elsewhere', () => {
    const cost = new BudgetCost(PRICES, undefined, 'estimate', undefined, { tokens: 500, of: undefined })
    const settler = cost.forRequest(requestFacts({ body: body({ hasUnseenPrompt: true }) }))
    const served = (model: string): Usage => ({ tokens: tokenCounts(90, 20, { model }), isStreamed: false })
    expect(settler).toBeInstanceOf(UnseenSettler)
    expect(settler.unlistedModel?.(served('new'))).toBe('new')
    expect(settler.unlistedModel?.(served('big-1'))).toBeUndefined()
  })

  test('takes the cost that the caller reports, if it is an amount', () => {
    for (const cost of [priced, new BudgetCost(undefined, FIELD)]) {
      const facts = requestFacts({ isSettledLater: true })
      expect(settled({ tokens: undefined, cost: 0.0125, isStreamed: false }, facts, cost)).toBe(12_500_000)
      expect(settled({ tokens: undefined, cost: 0, isStreamed: false }, facts, cost)).toBe(0)
      expect(settled({ tokens: undefined, cost: -1, isStreamed: false }, facts, cost)).toBeUndefined()
      expect(settled({ tokens: undefined, cost: Number.NaN, isStreamed: false }, facts, cost)).toBeUndefined()
    }
  })

  test('happens where the body was read, and else only where the caller settles', () => {
    expect(priced.applies(requestFacts({ body: body() }))).toBe(true)
    expect(priced.applies(requestFacts())).toBe(false)
    expect(priced.applies(requestFacts({ isSettledLater: true }))).toBe(true)
    const byField = new BudgetCost(undefined, FIELD)
    expect(byField.applies(requestFacts({ body: body() }))).toBe(false)
    expect(byField.applies(requestFacts({ isSettledLater: true }))).toBe(true)
  })
})

describe('a cost in a header field', () => {
  const byField = new BudgetCost(undefined, FIELD)
  const facts = (text: string | undefined | null) => requestFacts({ headerText: (name) => (name === 'x-cost' ? text : undefined) })

  test('is read as units, up to its maximum, and counts as the default where it is not a positive number', () => {
    expect(byField.of(facts('0.0125'))).toBe(12_500_000)
    expect(byField.of(facts('2.000000001'))).toBe(2_000_000_000)
    for (const text of [undefined, '', '0', '-3', 'NaN', 'Infinity', '1e9', 'free']) expect(byField.of(facts(text))).toBe(5)
  })

  test('is refused where it is repeated', () => {
    expect(byField.of(facts(null))).toBe(AMBIGUOUS)
  })

  test('needs no body, and beside prices counts only where none was read', () => {
    expect([byField.needsBody, priced.needsBody]).toEqual([false, true])
    const both = new BudgetCost(PRICES, FIELD)
    expect(both.needsBody).toBe(true)
    expect(both.of(facts('0.01'))).toBe(10_000_000)
    expect(both.of({ ...facts('0.01'), body: body(), headerText: () => '0.01' })).toBe(100 * 4000 + 50 * 8000)
  })
})
