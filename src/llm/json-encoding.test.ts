import { expect, test } from 'vitest'
import { JsonEncoding } from './json-encoding.ts'

const TEXT = '{"a":"é😀"}'
const LITTLE = Buffer.from(TEXT, 'utf16le')
const BIG = Buffer.from(LITTLE).swap16()

test.each([
  ['UTF-8', Buffer.from(TEXT)],
  ['UTF-8 with a mark', Buffer.from(`\ufeff${TEXT}`)],
  ['UTF-16, little end first', LITTLE],
  ['UTF-16, big end first', BIG],
  ['UTF-16 with a mark, little end first', Buffer.concat([Buffer.from([0xff, 0xfe]), LITTLE])],
  ['UTF-16 with a mark, big end first', Buffer.concat([Buffer.from([0xfe, 0xff]), BIG])],
])('%s is handed on as UTF-8 without a mark, cut anywhere', (_encoding, bytes) => {
  expect(read([bytes])).toBe(TEXT)
  for (let at = 0; at <= bytes.length; at++) expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toBe(TEXT)
  expect(read([...bytes].map((byte) => Buffer.from([byte])))).toBe(TEXT)
})

test.each(['', '1', '{}', '"é"'])('so is a text as short as %j', (text) => {
  expect(read([Buffer.from(text)])).toBe(text)
  expect(read([Buffer.from(text, 'utf16le')])).toBe(text)
})

test('UTF-32 stays as it is', () => {
  const bytes = Buffer.from('{\0\0\0}\0\0\0')
  expect(read([bytes])).toBe(bytes.toString())
})

function read(pieces: readonly Buffer[]): string {
  const out: Buffer[] = []
  const encoding = new JsonEncoding((bytes, from, to) => out.push(Buffer.from(bytes.subarray(from, to))))
  for (const piece of pieces) encoding.push(piece, 0, piece.length)
  encoding.end()
  return Buffer.concat(out).toString()
}
