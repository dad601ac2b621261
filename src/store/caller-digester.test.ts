import { expect, test } from 'vitest'
import { CallerDigester } from './caller-digester.ts'

const digest = new CallerDigester([1, 2])

test('a caller is named by 16 hexadecimal digits, always the same', () => {
  expect(digest.of(['acme'])).toMatch(/^[0-9a-f]{16}$/)
  expect(digest.of(['acme'])).toBe(new CallerDigester([1, 2]).of(['acme']))
})

test('other values, another order or another key give other digits', () => {
  const names = [
    digest.of([]),
    digest.of(['']),
    digest.of(['acme']),
    digest.of(['a', 'cme']),
    digest.of(['cme', 'a']),
    new CallerDigester([1, 3]).of(['acme']),
  ]
  expect(new Set(names).size).toBe(names.length)
})
