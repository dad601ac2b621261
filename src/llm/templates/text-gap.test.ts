import { expect, test } from 'vitest'
import { TextGap } from './text-gap.ts'

test.each([
  ['', 0],
  ['plain text', 10],
  ['\\n\\"\\\\\\/\\b\\f\\r\\t', 8],
  ['\\u00e9\\u20AC', 2],
  ['\\ud83d\\ude00', 1],
  ['\\uD83D\\uDE00', 1],
  ['\\ud83d alone', 7],
  ['\\ude00 alone', 6],
  ['Straße 東京 😀', 11],
  ['\u007f\u2028\ufeff', 3],
])('the text %j has %i characters', (text, characters) => {
  const gap = new TextGap()
  const bytes = Buffer.from(`${text}","next":"x"}`)
  expect(gap.read(0, bytes, 0, bytes.length)).toBe(Buffer.byteLength(text))
  expect(gap.characters).toBe(characters)
})

test.each([
  ['a quote that is missing', 'text'],
  ['a control character', 'a\tb"'],
  ['a line end', 'a\nb"'],
  ['an unknown escape', '\\x"'],
  ['an escape that is cut off', '\\'],
  ['a short escape', '\\u12"'],
  ['a wrong digit', '\\u12g4"'],
  ['a lone byte of UTF-8', Buffer.from([0x61, 0x80, 0x22])],
  ['a character that is cut off', Buffer.from([0xe2, 0x82, 0x22])],
  ['a character at the end', Buffer.from([0xe2, 0x82])],
  ['an overlong character', Buffer.from([0xc0, 0xaf, 0x22])],
  ['an overlong character of three', Buffer.from([0xe0, 0x80, 0xaf, 0x22])],
  ['half a pair in UTF-8', Buffer.from([0xed, 0xa0, 0x80, 0x22])],
  ['a character beyond Unicode', Buffer.from([0xf4, 0x90, 0x80, 0x80, 0x22])],
])('%s is for the parser', (_, text) => {
  const bytes = Buffer.from(text as string)
  expect(new TextGap().read(0, bytes, 0, bytes.length)).toBe(-1)
})

test('each text of an event is read once, and other bytes in its place are not taken for it', () => {
  const gap = new TextGap()
  const bytes = Buffer.from('text","longer"')
  const read = (index: number, from: number): number[] => [gap.read(index, bytes, from, bytes.length), gap.characters]
  gap.begin()
  expect([read(0, 0), read(1, 7)]).toEqual([
    [4, 4],
    [13, 6],
  ])
  bytes.write('te"t","lo"ger"')
  expect([read(0, 0), read(1, 7)]).toEqual([
    [4, 4],
    [13, 6],
  ])
  expect([read(1, 8), read(1, 7)]).toEqual([
    [9, 1],
    [9, 2],
  ])
  gap.begin()
  expect(read(0, 0)).toEqual([2, 2])
})
