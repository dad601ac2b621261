import { expect, test } from 'vitest'
import { characters, charactersIn } from './dialect.ts'

test.each([
  ['', 0],
  ['abcd', 4],
  ['Straße', 6],
  ['東京', 2],
  ['😀', 1],
  ['a😀b👍', 4],
  ['e\u0301', 2],
  ['👩‍🚀', 3],
])('%j has as many characters as code points: %i', (text, count) => {
  expect(characters(text)).toBe(count)
})

test('a pair that comes in two halves counts once', () => {
  expect(characters('\ud83d') + characters('\ude00')).toBe(1)
})

test.each([[undefined], [null], [4], [true], [['text']], [{ text: 'text' }]])('%j is no text', (value) => {
  expect(charactersIn(value)).toBe(0)
})
