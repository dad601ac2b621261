import { expect, test } from 'vitest'
import { isAllSeen, printableJson, printableText, quoted } from './printable.ts'

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

test('JSON keeps its meaning', () => {
  const value = { key: 'x\u009b2J\u202e\u007f\x1b', other: '👍' }
  const text = printableJson(`${JSON.stringify(value, null, 2)}\n`)
  expect(JSON.parse(text)).toEqual(value)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
})

test('a text in quotes has no character that a terminal obeys', () => {
  expect(quoted('"\u009b2J\u202e\n')).toBe('"\\"\\u009b2J\\u202e\\n"')
})

test.each([
  'alice',
  'a b',
  'Zoë',
  '日本',
  '\u2764\ufe0f',
  'a \u2764\ufe0e!',
  '\u{1f44d}\u{1f3fd}',
  '\u270c\u{1f3fd}\ufe0f',
  '1\ufe0f\u20e3',
  'e\u0301',
  '山田\u3000太郎',
  'スーパー\u3000すし',
  '株式会社\u3000ABC',
  '2026年\u3000春',
  'か\u3099\u3000き',
])('all of %j is seen', (text) => {
  expect(isAllSeen(text)).toBe(true)
})

test.each(['a\u3000b', '山\u3000', '\u3000山', 'a\u3000b山', '山\u3000\u3000山', '山 \u3000山', '山\u2003山', 'Ａ\u3000Ｂ'])(
  'a space that is none is not seen in %j',
  (text) => {
    expect(isAllSeen(text)).toBe(false)
  },
)

test.each([
  '\n',
  '\x1b',
  '\u0085',
  '\u00ad',
  '\u034f',
  '\u061c',
  '\u115f',
  '\u180e',
  '\u200d',
  '\u2028',
  '\u202e',
  '\u2063',
  '\u3164',
  '\ufeff',
  '\uffa0',
  '\u{e0061}',
  '\u{e0100}',
  '\ud800',
  '\ufe00',
  '\ufe0e',
  '\ufe0f',
  '\u2764\ufe00',
  '\u2764\ufe0f\ufe0f',
  '1\ufe0f',
  '\u2800',
  '\u00a0',
  '\u1680',
  '\u2003',
  '\u202f',
  '\u3000',
  '\u0378',
  '\ue000',
  '\u{10fffe}',
  '\u{f0000}',
])('something in a text with %j is not seen', (character) => {
  expect([isAllSeen(`a${character}b`), isAllSeen(character)]).toEqual([false, false])
})
