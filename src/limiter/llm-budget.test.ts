import { expect, test } from 'vitest'
import { estimatedTokens, generatesText, maxCompletionTokens } from './llm-budget.ts'

test.each([
  [50, 70, 50],
  [70, 50, 50],
  [50, undefined, 50],
  [undefined, 70, 70],
  [undefined, undefined, 1000],
  [5000, undefined, 5000],
])('of %s requested and %s configured, %i are reserved for a completion', (requested, configured, reserved) => {
  expect(maxCompletionTokens(requested, configured)).toBe(reserved)
})

test('four characters are a token, and what is begun is one', () => {
  expect([0, 1, 3, 4, 5, 8, 9].map(estimatedTokens)).toEqual([0, 1, 1, 1, 2, 2, 3])
})

test('a path that ends in /embeddings generates no text', () => {
  expect(['/v1/embeddings', '/embeddings'].map(generatesText)).toEqual([false, false])
  expect(['/v1/embeddings/x', '/v1/chat/completions', '/v1/my-embeddings', '/'].map(generatesText)).toEqual([true, true, true, true])
})
