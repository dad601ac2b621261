import { describe, expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { AMBIGUOUS, type Usage } from './cost.ts'
import { BudgetCost } from './llm-costs.ts'
import { ModelPrice, PriceTable } from './price-table.ts'

// 2, 0.5, 2.5 and 8 units for a million tokens: so many thousand billionths for each.
const BIG = new ModelPrice({ input: 2_000_000, cachedInput: 500_000, cacheWrite: 2_500_000, output: 8_000_000 })
const OTHER = new ModelPrice({ input: 10_000_000, cachedInput: 10_000_000, cacheWrite: 10_000_000, output: 40_000_000 })
const PRICES = new PriceTable([
  ['big*', BIG],
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
  test("is the prompt and the longest completion at the prices of the body's model", () => {
    expect(priced.of(requestFacts({ body: body() }))).toBe(100 * 2000 + 50 * 8000)
    expect(priced.of(requestFacts({ body: body({ requestedTokens: undefined, choices: 2 }) }))).toBe(100 * 2000 + 2 * 1000 * 8000)
    expect(priced.of(requestFacts({ body: body(), path: '/v1/embeddings' }))).toBe(100 * 2000)
    expect(priced.of(requestFacts({ body: body(), path: '/v1/messages/count_tokens' }))).toBe(0)
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
  const tokens = { prompt: 90, completion: 20 }

  test('prices what was used as the reservation did', () => {
    expect(settled({ tokens, isStreamed: false })).toBe(90 * 2000 + 20 * 8000)
    expect(settled({ tokens, isStreamed: true })).toBe(90 * 2000 + 20 * 8000)
    expect(settled({ tokens, isStreamed: false }, requestFacts({ body: body({ model: 'x' }) }))).toBe(90 * 10_000 + 20 * 40_000)
  })

  test('prices cached tokens apart, inside the prompt or beside it', () => {
    const inside = { ...tokens, cache: { read: 40, written: 10, isInPrompt: true } }
    expect(settled({ tokens: inside, isStreamed: false })).toBe(40 * 2000 + 40 * 500 + 10 * 2500 + 20 * 8000)
    const beside = { ...tokens, cache: { read: 40, written: 10, isInPrompt: false } }
    expect(settled({ tokens: beside, isStreamed: false })).toBe(90 * 2000 + 40 * 500 + 10 * 2500 + 20 * 8000)
  })

  test('makes nothing cheaper by more cached tokens than the prompt has', () => {
    for (const [read, written] of [
      [91, 0],
      [90, 1],
      [0, 91],
      [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ]) {
      const usage = { tokens: { ...tokens, cache: { read: read!, written: written!, isInPrompt: true } }, isStreamed: false }
      expect(settled(usage)).toBe(90 * 2000 + 20 * 8000)
    }
  })

  test('gives everything back where nothing was used, and keeps the reservation where that is unknown', () => {
    expect(settled('nothing')).toBe(0)
    expect(settled('unknown')).toBeUndefined()
    expect(settled({ tokens: undefined, isStreamed: false })).toBeUndefined()
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
    expect(both.of({ ...facts('0.01'), body: body(), headerText: () => '0.01' })).toBe(100 * 2000 + 50 * 8000)
  })
})
