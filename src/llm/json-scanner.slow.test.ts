import { expect, test } from 'vitest'
import { misjudgedTexts } from '../../test/support/llm/scanned-texts.ts'

test('a text of up to five signs is JSON exactly when JSON.parse takes it', () => {
  expect(misjudgedTexts(5)).toEqual([])
})
