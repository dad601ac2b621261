import { describe, expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import { MAX_TOKENS, type TokenWeights, tokenCounts } from '../llm/usage.ts'
import type { RequestFacts } from './cost.ts'
import { LlmReservation } from './llm-costs.ts'
import { settledBy } from './settling-record.ts'

const CHAT = '/v1/chat/completions'

describe('a reservation', () => {
  test.each([
    ['the prompt and what the request asks for', 50, 70, 1, 62],
    ['the prompt and what the rule allows, where the request asks for more', 90, 70, 1, 82],
    ['the prompt and what the rule allows, for all choices, where the request sets no bound', undefined, 70, 3, 82],
    ['the prompt and 1000 for each choice, where neither sets a bound', undefined, undefined, 3, 3012],
    ['never more than can be counted', MAX_TOKENS, undefined, 1, MAX_TOKENS],
  ])('is %s', (_, requestedTokens, max, choices, reserved) => {
    expect(newReservation({ max }).of(facts({ requestedTokens, choices }))).toBe(reserved)
  })

  test('is the longest completion where no body was read', () => {
    expect(newReservation({ max: 70 }).of(requestFacts({ path: CHAT }))).toBe(70)
    expect(newReservation({}).of(requestFacts({ path: CHAT }))).toBe(1000)
  })

  test.each(['/v1/embeddings', '/embeddings'])('is the prompt alone at %s, where no text is generated', (path) => {
    expect(newReservation({ max: 70 }).of(facts({ path }))).toBe(12)
    expect(newReservation({ max: 70 }).of(requestFacts({ path }))).toBe(0)
  })

  test('has a completion where messages or a prompt come to the path of embeddings', () => {
    const { body, ...rest } = facts({ path: '/v1/chat/completions/embeddings' })
    expect(newReservation({ max: 70 }).of({ ...rest, body: { ...body!, isForText: true } })).toBe(82)
  })

  test('is nothing where tokens are only counted', () => {
    expect(newReservation({ max: 70 }).of(facts({ path: '/v1/messages/count_tokens' }))).toBe(0)
  })

  test.each(['/v1/embeddings/x', '/v1/my-embeddings', '/'])('has a completion at %s', (path) => {
    expect(newReservation({ max: 70 }).of(facts({ path }))).toBe(82)
  })

  test('counts the prompt as the heaviest kind of input, and the completion by its own weight', () => {
    // 12 × 1.25 + 70 × 3.01 = 225.7
    expect(newReservation({ max: 70, weights: WEIGHTS }).of(facts({}))).toBe(226)
  })

  test('does not depend on the number given with the question', () => {
    expect(newReservation({ max: 70 }).of({ ...facts({}), given: 0 })).toBe(82)
  })

  test('needs the body and is never pre-fetched', () => {
    expect(newReservation({})).toMatchObject({ needsBody: true, isLeasable: false })
  })
})

describe('when the request is over', () => {
  const tokens = tokenCounts(10, 20)

  test('somebody settles what was taken, if the body was read', () => {
    const { settling } = newReservation({})
    expect(settling.applies(facts({}))).toBe(true)
    expect(settling.applies(requestFacts({ path: CHAT }))).toBe(false)
  })

  test('what was used counts, be it more or less than was taken', () => {
    expect(newReservation({}).settled(5, { tokens, isStreamed: false })).toBe(30)
    expect(newReservation({}).settled(500, { tokens, isStreamed: true })).toBe(30)
    expect(newReservation({}).settled(5, { tokens: tokenCounts(MAX_TOKENS, MAX_TOKENS), isStreamed: false })).toBe(MAX_TOKENS)
  })

  test('each kind of token counts by its weight, wherever it is settled', () => {
    const counts = { tokens: tokenCounts(100, 20, { cachedInput: 50, cacheWrite: 9 }), isStreamed: false }
    const weighted = newReservation({ weights: WEIGHTS })
    // 41 × 1 + 50 × 0.1 + 9 × 1.25 + 20 × 3.01 = 117.45
    expect(weighted.settled(500, counts)).toBe(118)
    expect(settledBy(weighted.record, 500, counts)).toBe(118)
    expect(weighted.record.kind).toBe(5)
  })

  test('tokens of rules without weights are settled as earlier versions did', () => {
    expect(newReservation({}).record).toEqual({ kind: 1, numbers: [] })
    expect(settledBy({ kind: 1, numbers: [] }, 500, { tokens, isStreamed: false })).toBe(30)
  })

  test('a rule that does not watch streams keeps what it took for one, and settles anything else', () => {
    const blind = newReservation({ isWatching: false })
    expect(blind.settled(500, { tokens, isStreamed: true })).toBeUndefined()
    expect(blind.settled(500, { tokens, isStreamed: false })).toBe(30)
    expect(blind.settled(500, 'nothing')).toBe(0)
  })

  test('all goes back where nothing was used, and stays where nobody can tell', () => {
    expect(newReservation({}).settled(500, 'nothing')).toBe(0)
    expect(newReservation({}).settled(500, 'unknown')).toBeUndefined()
  })
})

const WEIGHTS = { input: 100, cachedInput: 10, cacheWrite: 125, output: 301 }

interface Settings {
  max?: number | undefined
  isWatching?: boolean
  weights?: TokenWeights
}

function newReservation({ max, isWatching = true, weights }: Settings): LlmReservation {
  const others = { enforceMidStream: true, bufferTokens: 100, onLimitExceeded: 'graceful_close', includePartialUsage: true } as const
  return new LlmReservation({ withoutUsage: 'estimate', weights, maxCompletionTokens: max, streaming: { enabled: isWatching, ...others } })
}

function facts({ path = CHAT, ...body }: { path?: string; requestedTokens?: number | undefined; choices?: number }): RequestFacts {
  const read = { promptTokens: 12, requestedTokens: undefined, choices: 1, isStream: false, model: undefined, ...body }
  return requestFacts({ path, body: read })
}
