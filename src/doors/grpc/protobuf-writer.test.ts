import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { wellFormedText } from '../../../test/support/random/any-text.ts'
import { ProtobufReader } from './protobuf-reader.ts'
import { ProtobufWriter, textBytes, varintBytes } from './protobuf-writer.ts'

describe('what is written', () => {
  test('is read again: texts of any length and any characters, numbers, messages inside', () => {
    const writer = new ProtobufWriter()
    const reader = new ProtobufReader()
    const text = fc.oneof(fc.string({ maxLength: 40 }), wellFormedText({ maxLength: 40 }), fc.string({ minLength: 100, maxLength: 9000 }))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), fc.maxSafeNat(), (texts, number) => {
        const wellFormed = texts.map((each) => each.toWellFormed())
        writer.number(1, number)
        const inner = writer.open(2)
        for (const each of wellFormed) writer.text(3, each)
        writer.close(inner)
        writer.begin(
          4,
          wellFormed.reduce((sum, each) => sum + textBytes(each), 0),
        )
        for (const each of wellFormed) writer.text(3, each)
        reader.begin(writer.finish())
        expect([reader.next(), reader.varint()]).toEqual([1, number])
        expect([reader.next(), textsIn(reader)]).toEqual([2, wellFormed])
        expect([reader.next(), textsIn(reader)]).toEqual([4, wellFormed])
        expect(reader.next()).toBe(0)
      }),
    )
  })

  test.each([
    [0, 1],
    [127, 1],
    [128, 2],
    [16_383, 2],
    [16_384, 3],
    [2 ** 49 - 1, 7],
    [2 ** 49, 8],
  ])('as a number takes as many bytes as foreseen: %i', (number, bytes) => {
    const writer = new ProtobufWriter()
    writer.number(1, number)
    expect([varintBytes(number), writer.finish().length - 1]).toEqual([bytes, bytes])
  })
})

function textsIn(reader: ProtobufReader): string[] {
  const texts: string[] = []
  const end = reader.enter()
  for (let field = reader.next(); field !== 0; field = reader.next()) texts.push(reader.text())
  reader.leave(end)
  return texts
}
