import { describe, expect, test } from 'vitest'
import { ProtocolError, ReplyError, ReplyReader } from './reply-reader.ts'

/** The replies in these chunks. */
function read(...chunks: readonly (string | Buffer)[]): unknown[] {
  const replies: unknown[] = []
  const reader = new ReplyReader((reply) => replies.push(reply))
  for (const chunk of chunks) reader.read(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  return replies
}

const TEXT =
  '+OK\r\n$5\r\n1 2.5\r\n:-42\r\n$-1\r\n$0\r\n\r\n*-1\r\n*0\r\n-ERR no\r\n*3\r\n$3\r\nü\n\r\n*1\r\n:7\r\n-WRONG x\r\n$2\r\n\r\n\r\n$1\r\n1\r\n'
const REPLIES = ['OK', '1 2.5', -42, null, '', null, [], new ReplyError('ERR no'), ['ü\n', [7], new ReplyError('WRONG x')], '\r\n', '1']

describe('replies', () => {
  test('of all types are read', () => {
    expect(read(TEXT)).toEqual(REPLIES)
  })

  test('are the same whatever byte a chunk ends at', () => {
    const bytes = Buffer.from(TEXT)
    for (let at = 0; at <= bytes.length; at++) expect(read(bytes.subarray(0, at), bytes.subarray(at))).toEqual(REPLIES)
  })

  test('are the same byte by byte', () => {
    expect(read(...Array.from(Buffer.from(TEXT), (byte) => Buffer.of(byte)))).toEqual(REPLIES)
  })

  test('are told as soon as they are there, not with the next one', () => {
    expect(read('+OK\r\n$5\r\n1 2.5\r')).toEqual(['OK'])
    expect(read('$5\r\n1 2.5\r\n$3\r\nab')).toEqual(['1 2.5'])
  })

  test('that are long are put together once, when all of them is there', () => {
    const text = 'x'.repeat(4_000_000)
    const bytes = Buffer.from(`$${text.length}\r\n${text}\r\n:1\r\n`)
    const chunks = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, i) => bytes.subarray(i * 1000, (i + 1) * 1000))
    expect(read(...chunks)).toEqual([text, 1])
  })
})

test('numbers are unpacked where they are expected, whatever byte a chunk ends at, and all other replies stay what they are', () => {
  const numbers = [1, 1_795_045_931_374.4929, -0.5, 0, Number.POSITIVE_INFINITY]
  const packed = Buffer.from(Float64Array.from(numbers).buffer)
  const bytes = Buffer.concat([
    Buffer.from('$40\r\n'),
    packed,
    Buffer.from('\r\n$3\r\nabc\r\n-ERR no\r\n*1\r\n$8\r\n12345678\r\n$9\r\n'),
    packed.subarray(0, 9),
    Buffer.from('\r\n'),
  ])
  const expected = [numbers, 'abc', new ReplyError('ERR no'), ['12345678'], packed.toString('utf8', 0, 9)]
  for (let at = 0; at <= bytes.length; at++) {
    const replies: unknown[] = []
    const isNumbers = [true, false, true, true, true]
    const reader = new ReplyReader(
      (reply) => replies.push(reply),
      () => isNumbers[replies.length]!,
    )
    for (const chunk of [bytes.subarray(0, at), bytes.subarray(at)]) reader.read(chunk)
    expect(replies).toEqual(expected)
  }
})

test.for([
  'HTTP/1.1 400 Bad Request\r\n\r\n',
  '\r\n',
  '$x\r\n',
  '$\r\n',
  ':1.5\r\n',
  '*1e3\r\n',
  '$1\r\n12\r\n',
  '$99999999999999999999\r\n',
  '$536870913\r\n',
  '*1\r\n'.repeat(17),
  `-${'x'.repeat(20_000)}\r\n`,
  '+'.repeat(20_000),
])('what Redis never sends is refused, whatever byte a chunk ends at: %#', (text) => {
  for (const at of [0, 1, 3, text.length - 1]) expect(() => read(text.slice(0, at), text.slice(at))).toThrow(ProtocolError)
})
