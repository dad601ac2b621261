import { expect, test } from 'vitest'
import { printable, printableJson, printableText } from './printable.ts'

test.each([
  ['plain text stays', 'alice, Zoë, 日本, 👍', 'alice, Zoë, 日本, 👍'],
  ['an escape sequence', '\x1b[2Jgone', '\\u{1b}[2Jgone'],
  ['an escape sequence of one character', '\u009b2J', '\\u{9b}2J'],
  ['lines', 'a\r\nb\u2028c', 'a\\u{d}\\u{a}b\\u{2028}c'],
  ['a turned direction', '\u202egnp.exe', '\\u{202e}gnp.exe'],
  ['what has no width', 'a\u200bb\ufeff', 'a\\u{200b}b\\u{feff}'],
  ['half a character', '\ud83d', '\\u{d83d}'],
])('%s', (_what, text, expected) => {
  expect(printableText(text)).toBe(expected)
})

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

test('JSON keeps its meaning', () => {
  const value = { key: 'x\u009b2J\u202e\u007f\x1b', other: '👍' }
  const text = printableJson(`${JSON.stringify(value, null, 2)}\n`)
  expect(JSON.parse(text)).toEqual(value)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
})
