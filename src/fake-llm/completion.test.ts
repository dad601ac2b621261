import { expect, test } from 'vitest'
import { wordsFrom } from './completion.ts'

test('a token is a word of three letters and a space, wherever it stands', () => {
  for (let position = 0; position < 200; position++) expect(wordsFrom(position, 1)).toMatch(/^[a-z]{3} $/)
})

test('words depend on their position alone', () => {
  expect(wordsFrom(0, 100)).toBe(wordsFrom(0, 42) + wordsFrom(42, 58))
})
