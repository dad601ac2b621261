import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wellFormedText } from '../../../test/support/random/any-text.ts'
import { KnownTexts } from './protobuf-reader.ts'

test('a text is the same whether it is known or not: ASCII, other characters, bytes that are no UTF-8', () => {
  const bytes = fc.oneof(
    fc.string({ maxLength: 3 }).map((text) => Buffer.from(text)),
    wellFormedText({ maxLength: 4 }).map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 4 }).map((some) => Buffer.from(some)),
    fc.string({ minLength: 62, maxLength: 66 }).map((text) => Buffer.from(text)),
  )
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 50 }), (all) => {
      const known = new KnownTexts()
      for (const each of [...all, ...all, ...all.toReversed()]) {
        const inside = Buffer.concat([Buffer.from('<'), each, Buffer.from('>')])
        expect(known.read(inside, 1, 1 + each.length)).toBe(each.toString())
      }
    }),
  )
})

test('bytes that are no UTF-8 are not taken for a text whose characters have their numbers', () => {
  const known = new KnownTexts()
  const [text, other] = [Buffer.from('\u0084\u00e9'), Buffer.from([0x84, 0xe9])]
  expect(known.read(text, 0, text.length)).toBe('\u0084\u00e9')
  expect(known.read(other, 0, other.length)).toBe('\ufffd\ufffd')
})
