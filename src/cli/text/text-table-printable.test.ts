import { expect, test } from 'vitest'
import { printable } from './text-table.ts'

test('every text of a value is made printable, names included', () => {
  expect(printable({ '\x07a': ['\x1b', 1, null, { b: '\u009b' }] })).toEqual({ '\\u{7}a': ['\\u{1b}', 1, null, { b: '\\u{9b}' }] })
})

test.each([
  ['bytes of UTF-8 are read', 'Zo\u00c3\u00ab', 'Zoë'],
  ['what a client hides in them is shown', '\u00c2\u009b2J\u00e2\u0080\u00ae', '\\u{9b}2J\\u{202e}'],
  ['other bytes stay', 'Zo\u00eb', 'Zoë'],
])('%s', (_what, value, expected) => {
  expect(printable(value)).toBe(expected)
})
