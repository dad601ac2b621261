import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MalformedMessage } from './protobuf-reader.ts'
import { ProtobufWriter } from './protobuf-writer.ts'
import { InvalidCall, RateLimitRequestReader } from './rate-limit-request.ts'

const DOMAIN = 1
const DESCRIPTORS = 2
const HITS = 3

/** A message written field by field. */
function message(write: (writer: ProtobufWriter) => void): Uint8Array {
  const writer = new ProtobufWriter()
  write(writer)
  return writer.finish()
}

function inside(writer: ProtobufWriter, field: number, write: () => void): void {
  const at = writer.open(field)
  write()
  writer.close(at)
}

function entry(writer: ProtobufWriter, key: string, value: string): void {
  inside(writer, 1, () => {
    writer.text(1, key)
    writer.text(2, value)
  })
}

/** A call with one descriptor (user=a), and what else is in the two. */
function call(more: { inDescriptor?: (writer: ProtobufWriter) => void; inCall?: (writer: ProtobufWriter) => void } = {}): Uint8Array {
  return message((writer) => {
    writer.text(DOMAIN, 'd')
    inside(writer, DESCRIPTORS, () => {
      entry(writer, 'user', 'a')
      more.inDescriptor?.(writer)
    })
    more.inCall?.(writer)
  })
}

const read = (bytes: Uint8Array) => new RateLimitRequestReader().read(bytes)
const hitsOf = (bytes: Uint8Array) => read(bytes).descriptors[0]!.hits

test('reads the domain and the descriptors', () => {
  expect(read(call())).toEqual({
    domain: 'd',
    descriptors: [{ names: ['user'], values: ['a'], hits: 1, isGivenBack: false }],
    ignoredLimits: 0,
  })
})

test('entries are sorted, and repeated keys have numbers', () => {
  const bytes = call({
    inDescriptor(writer) {
      entry(writer, 'user', 'b')
      entry(writer, 'path', '')
      entry(writer, 'user', 'c')
    },
  })
  expect(read(bytes).descriptors[0]).toMatchObject({ names: ['path', 'user', 'user#2', 'user#3'], values: ['', 'a', 'b', 'c'] })
})

describe('hits', () => {
  const own = (hits: number | undefined) => (writer: ProtobufWriter) =>
    inside(writer, 3, () => {
      if (hits !== undefined) writer.number(1, hits)
    })

  test('of the call count where they are not 0', () => {
    expect(hitsOf(call({ inCall: (writer) => writer.number(HITS, 7) }))).toBe(7)
    expect(hitsOf(call({ inCall: (writer) => writer.number(HITS, 0) }))).toBe(1)
  })

  test('of the descriptor win, and an empty message is 0', () => {
    const inCall = (writer: ProtobufWriter) => writer.number(HITS, 7)
    expect(hitsOf(call({ inDescriptor: own(3), inCall }))).toBe(3)
    expect(hitsOf(call({ inDescriptor: own(undefined), inCall }))).toBe(0)
    expect(hitsOf(call({ inDescriptor: own(0), inCall }))).toBe(0)
  })

  test('of 64 bits are read, as far as doubles go', () => {
    expect(hitsOf(call({ inDescriptor: own(2 ** 53 - 1) }))).toBe(2 ** 53 - 1)
    expect(hitsOf(call({ inDescriptor: own(2 ** 63) }))).toBe(2 ** 63)
  })

  test('that are negative are given back', () => {
    expect(read(call({ inDescriptor: (writer) => writer.number(4, 1) })).descriptors[0]!.isGivenBack).toBe(true)
    expect(read(call({ inDescriptor: (writer) => writer.number(4, 0) })).descriptors[0]!.isGivenBack).toBe(false)
  })
})

test('limits that are sent along are counted and not read', () => {
  const limit = (writer: ProtobufWriter) =>
    inside(writer, 2, () => {
      writer.number(1, 1_000_000)
      writer.number(2, 1)
    })
  expect(read(call({ inDescriptor: limit }))).toMatchObject({ ignoredLimits: 1, descriptors: [{ names: ['user'], hits: 1 }] })
})

test('fields that it does not know are skipped, wherever they are', () => {
  const unknown = (writer: ProtobufWriter) => {
    writer.number(99, 5)
    writer.text(98, 'x')
  }
  expect(read(call({ inDescriptor: unknown, inCall: unknown }))).toMatchObject({ domain: 'd', descriptors: [{ names: ['user'] }] })
})

test('a number where a text should be, and a text where a number should be, are refused', () => {
  expect(() => read(message((writer) => writer.number(DOMAIN, 5)))).toThrow(MalformedMessage)
  expect(() => read(call({ inCall: (writer) => writer.text(HITS, '5') }))).toThrow(MalformedMessage)
})

test('any bytes are read or refused, and a reader survives them', () => {
  const reader = new RateLimitRequestReader()
  const whole = call({ inDescriptor: (writer) => writer.number(4, 1) })
  const damaged = fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
    const bytes = Uint8Array.from(whole)
    bytes[at] = byte
    return bytes
  })
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), damaged), (bytes) => {
      try {
        for (const { hits, names } of reader.read(bytes).descriptors)
          expect(Number.isFinite(hits) && hits >= 0 && names.length <= 64).toBe(true)
      } catch (error) {
        expect(error instanceof MalformedMessage || error instanceof InvalidCall).toBe(true)
      }
      expect(reader.read(whole).domain).toBe('d')
    }),
  )
})
