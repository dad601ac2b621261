import { request } from 'node:http'
import { Duplex } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../../../test/support/run/property-runs.ts'
import { hasBody, InvalidResponse, type ResponseHead } from './response-head.ts'
import { ResponseReader } from './response-reader.ts'

/** What came of an answer: all that its reader was told, and how it ended. */
interface Outcome {
  readonly interims: ResponseHead[]
  head: ResponseHead | undefined
  body: string
  trailers: readonly string[] | undefined
  end: 'whole' | 'unfinished' | 'upgraded' | 'invalid'
  /** The bytes behind it. */
  rest: string
}

const token = fc.string({ unit: fc.constantFrom(..."!#$%&'*+-.^_`|~09azAZ"), minLength: 1, maxLength: 8 })
const value = fc
  .string({ unit: fc.constantFrom('a', 'Z', '0', ' ', '\t', ',', ';', '"', ':', '=', '\x80', '\xe9', '\xff'), maxLength: 12 })
  .map((text) => text.trim())
const field = fc.tuple(
  token.map((name) => `x-${name}`),
  value,
)
const fields = fc.array(field, { maxLength: 4 })
const reason = fc.string({ unit: fc.constantFrom('O', 'K', ' ', '\t', '\xe9', '\x80', '~'), maxLength: 8 })
const bytes = fc.string({ unit: fc.constantFrom('\r', '\n', '\r\n', '0', 'a', '\x00', '\xff', 'HTTP/1.1 200 OK\r\n\r\n'), maxLength: 12 })
const extension = fc.constantFrom('', ';a', ';a=b', ';a="b c"', ';a=b;c=d')
const status = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 204, 205, 304, 999))
const anyMethod = fc.constantFrom('GET', 'POST', 'HEAD')

const answerParts = fc
  .record({
    interims: fc.array(fc.tuple(fc.constantFrom(100, 102, 103, 199), fields), { maxLength: 2 }),
    version: fc.constantFrom('1.1', '1.1', '1.0'),
    status,
    reason,
    fields,
    framing: fc.constantFrom('length', 'chunks', 'close', 'none'),
    pieces: fc.array(fc.tuple(bytes, extension), { maxLength: 4 }),
    trailers: fields,
    isUpperCase: fc.boolean(),
  })
  .map((answer) => ({ ...answer, framing: answer.version === '1.0' && answer.framing === 'chunks' ? 'length' : answer.framing }))
/** A valid answer, as bytes. */
const anyAnswer = answerParts.map(write)
const chunkedAnswer = answerParts
  .map((answer) => ({ ...answer, version: '1.1', framing: 'chunks', status: hasBody('GET', answer.status) ? answer.status : 200 }))
  .map(write)

/** Where chunks end, as shares of the whole; the same place twice is an empty chunk. */
const anyCuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })

/** What mutations put in. */
const anyJunk = fc.oneof(
  fc.constantFrom('\r', '\n', '\r\n', '\r\n\r\n', '\x00', ' ', '\t', ':', ';', '0', '-', '+', ',', '\x7f', '\xff', 'x', 'f'),
  fc.constantFrom(
    'Content-Length: 1\r\n',
    'Content-Length: 0x1\r\n',
    'Content-Length: 1, 1\r\n',
    'Content-Length: +1\r\n',
    'Content-Length:\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: gzip\r\n',
    'Transfer-Encoding: chunked, gzip\r\n',
    'Transfer-Encoding : chunked\r\n',
    ' folded\r\n',
    'no colon\r\n',
    ': no name\r\n',
    '0\r\n\r\n',
    '-1\r\n',
    '0x1\r\n',
    'ffffffffffffffffff\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  ),
)

describe('a valid answer', () => {
  test('is read whole, with its fields, body and trailers as they came, and the same in any chunks', () => {
    fc.assert(
      fc.property(anyMethod, anyAnswer, anyCuts, (method, answer, cuts) => {
        const outcome = read(method, [answer.bytes])
        expectSame(read(method, chunksOf(answer.bytes, cuts)), outcome)
        expectSame(read(method, bytewise(answer.bytes)), outcome)
        expect(outcome.end).toBe('whole')
        expect(outcome.interims.map(({ status: code }) => code)).toEqual(answer.interims.map(([code]) => code))
        expect(outcome.head).toMatchObject({ status: answer.status, reason: answer.reason })
        expect(outcome.head!.fields.slice(0, 2 * answer.fields.length)).toEqual(answer.fields.flat())
        if (hasBody(method, answer.status)) {
          expect(outcome.body).toBe(answer.body)
          expect(outcome.trailers).toEqual(answer.framing === 'chunks' ? answer.trailers.flat() : [])
        } else {
          expect([outcome.body, outcome.trailers]).toEqual(['', []])
        }
      }),
      { numRuns: runs(20) },
    )
  })

  test('leaves the bytes behind it alone', () => {
    fc.assert(
      fc.property(anyMethod, anyAnswer, bytes, anyCuts, (method, answer, rest, cuts) => {
        const behind = Buffer.concat([answer.bytes, Buffer.from(rest, 'latin1')])
        const isFramed = answer.framing === 'length' || answer.framing === 'chunks'
        const hasNoBody = method === 'HEAD' || answer.status === 204 || answer.status === 304
        fc.pre(isFramed && !hasNoBody)
        for (const chunks of [[behind], chunksOf(behind, cuts)]) {
          expect(read(method, chunks)).toMatchObject({ end: 'whole', body: answer.body, rest })
        }
      }),
    )
  })

  test('hands its body on as it comes: nothing of it waits for more', () => {
    fc.assert(
      fc.property(bytes, fc.integer({ min: 0, max: 40 }), (body, missing) => {
        const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length + missing}\r\n\r\n`
        const chunk = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${(body.length + missing + 1).toString(16)}\r\n`
        for (const text of [head, chunk, 'HTTP/1.1 200 OK\r\n\r\n']) {
          expect(read('GET', [Buffer.from(text + body, 'latin1')]).body).toBe(body)
        }
      }),
    )
  })

  test('one after the other on one connection', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyMethod, anyAnswer), { minLength: 1, maxLength: 4 }), (answers) => {
        const reader = new ResponseReader()
        for (const [method, answer] of answers) {
          if (answer.framing === 'close' || answer.framing === 'none') continue
          const isBodiless = method === 'HEAD' || answer.status === 204 || answer.status === 304
          const sent = isBodiless ? answer.bytes.subarray(0, answer.bytes.length - answer.framedLength) : answer.bytes
          const outcome = newOutcome()
          reader.begin(method, false, sinkOf(outcome))
          expect(reader.hasBegun).toBe(false)
          expect(reader.push(sent, 0, sent.length)).toBe(0)
          expect([reader.isDone, reader.hasBegun]).toEqual([true, true])
          expect(outcome.head!.status).toBe(answer.status)
        }
      }),
    )
  })
})

describe('what is no valid answer', () => {
  test('never breaks the reader, and is judged the same in any chunks', () => {
    fc.assert(
      fc.property(anyMethod, anyAnswer, mutations(), anyCuts, (method, answer, mutate, cuts) => {
        const mutated = mutate(answer.bytes)
        const whole = read(method, [mutated])
        expectSame(judged(read(method, chunksOf(mutated, cuts))), judged(whole))
        expectSame(judged(read(method, bytewise(mutated))), judged(whole))
      }),
      { numRuns: runs(40) },
    )
  })

  test('half a line end in a head is refused before its end has come, in any line and in any chunks', () => {
    for (const text of ['HTTP/1.1 200 OK\n', 'HTTP/1.1 200 OK\r\nX-A: b\n', 'HTTP/1.1 200 OK\r\nX-A: b\r\nX-B: c\nX-C: d']) {
      expect(read('GET', [Buffer.from(text)]).end).toBe('invalid')
      expect(read('GET', bytewise(Buffer.from(text))).end).toBe('invalid')
    }
  })

  test('any bytes at all never break it', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), anyCuts, (garbage, cuts) => {
        const isStart = 'HTTP/'.startsWith(Buffer.from(garbage).toString('latin1'))
        expect(read('GET', chunksOf(Buffer.from(garbage), cuts)).end).toBe(isStart ? 'unfinished' : 'invalid')
      }),
    )
  })

  test('where the client of node:http refuses, it refuses; where both read, they read the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('GET', 'HEAD'), anyAnswer, mutations(), async (method, answer, mutate) => {
        const mutated = mutate(answer.bytes)
        const ours = read(method, [mutated])
        fc.pre(ours.end !== 'upgraded' && !/ 101[ \r]/.test(mutated.toString('latin1')))
        // RFC 9110 8.6: a length that comes twice may be taken for one, and Node does not.
        fc.pre((mutated.toString('latin1').match(/content-length/gi) ?? []).length < 2)
        // Bytes behind an answer are another's: what Node makes of them is not the question.
        fc.pre(ours.rest === '')
        const theirs = await readByNode(method, mutated)
        if (theirs === undefined) expect(ours.end).not.toBe('whole')
        else if (ours.end === 'whole') {
          expect({ status: ours.head!.status, fields: ours.head!.fields, body: ours.body, trailers: ours.trailers }).toEqual(theirs)
        }
      }),
      { numRuns: runs(25) },
    )
  })

  test.each([
    ['a length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na'],
    ['a bare LF', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
    ['a bare LF in a value', 'HTTP/1.1 200 OK\r\nX-A: b\nc\r\nContent-Length: 0\r\n\r\n'],
    ['NUL', 'HTTP/1.1 200 OK\r\nX-A: \x00\r\nContent-Length: 0\r\n\r\n'],
    ['a folded line', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
    ['a size with 0x', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n'],
    ['a size with a sign', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n'],
    ['a size with a space before it', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n'],
    ['an empty size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n'],
    ['a size ended by LF', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n'],
    ['a chunk ended by LF', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n'],
    ['a control character in an extension', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;\x01\r\na\r\n0\r\n\r\n'],
    ['trailers ended by LF', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\n\r\n\r\n'],
  ])('%s: refused by both', async (_what, text) => {
    const answer = Buffer.from(text, 'latin1')
    expect(read('GET', [answer]).end).toBe('invalid')
    expect(await readByNode('GET', answer)).toBeUndefined()
  })

  test.each([
    ['a coding behind chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n'],
    ['another coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n'],
    ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['an empty line before it', '\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a control character in a value', 'HTTP/1.1 200 OK\r\nX-A: \x01\r\nContent-Length: 0\r\n\r\n'],
  ])('%s: refused, though the client of node:http may read it', (_what, text) => {
    expect(read('GET', [Buffer.from(text, 'latin1')]).end).toBe('invalid')
  })

  test.each([
    ['a head', 'HTTP/1.1 200 OK\r\n', 'X-A: b\r\n'],
    ['a line of a head', 'HTTP/1.1 200 OK\r\nX-A: ', 'b'],
    ['a chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '0'],
    ['a chunk extension', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;', 'x'],
    ['trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', 'X-T: 1\r\n'],
    ['interim answers', '', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ])('%s without end is refused before it fills the memory', (_what, begin, more) => {
    const chunks = [Buffer.from(begin), ...Array.from({ length: 100 }, () => Buffer.from(more.repeat(1000)))]
    expect(read('GET', chunks).end).toBe('invalid')
  })

  test.each(['GET', 'POST', 'HEAD'])('a 101 that %s did not ask for', (method) => {
    expect(read(method, [Buffer.from('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n')]).end).toBe('invalid')
  })

  test('a 101 that was asked for leaves the rest to the other protocol', () => {
    const answer = Buffer.from('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 200 OK\r\n\r\n')
    for (const chunks of [[answer], chunksOf(answer, [0.1, 0.9])]) {
      const outcome = read('GET', chunks, true)
      expect([outcome.end, outcome.head!.status, outcome.rest]).toEqual(['upgraded', 101, 'HTTP/1.1 200 OK\r\n\r\n'])
    }
  })
})

describe('chunks that are relayed', () => {
  const HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

  test('are frames of the same body with the same trailers, in any chunks', () => {
    fc.assert(
      fc.property(chunkedAnswer, anyCuts, (answer, cuts) => {
        for (const chunks of [[answer.bytes], chunksOf(answer.bytes, cuts), bytewise(answer.bytes)]) {
          const outcome = read('GET', chunks, false, true)
          const frames = Buffer.from(`${HEAD}${outcome.body}0\r\n\r\n`, 'latin1')
          expect([outcome.end, outcome.trailers]).toEqual(['whole', answer.trailers.flat()])
          expect(read('GET', [frames]).body).toBe(answer.body)
        }
      }),
      { numRuns: runs(10) },
    )
  })

  test.each([
    ['plain sizes, as they are', '3\r\nabc\r\n00A\r\n0123456789\r\n', '3\r\nabc\r\n00A\r\n0123456789\r\n'],
    ['a size with an extension, without it', '3\r\nabc\r\n4;a="b c"\r\ndefg\r\n', '3\r\nabc\r\n4\r\ndefg\r\n'],
    ['a size of many digits, with as few as it needs', '000000000003\r\nabc\r\n', '3\r\nabc\r\n'],
  ])('%s', (_what, sent, relayed) => {
    const answer = Buffer.from(`${HEAD}${sent}0\r\n\r\n`, 'latin1')
    expect(read('GET', [answer], false, true).body).toBe(relayed)
    expect(read('GET', bytewise(answer), false, true).body).toBe(relayed)
  })

  test('nothing is relayed of a size line before its end, nor of one that is not valid', () => {
    const sent = `${HEAD}3\r\nabc\r\n`
    for (const [more, relayed] of [
      ['4', '3\r\nabc\r\n'],
      ['4\r', '3\r\nabc\r\n'],
      ['4\r\n', '3\r\nabc\r\n4\r\n'],
    ]) {
      expect(read('GET', [Buffer.from(sent), Buffer.from(more!)], false, true).body).toBe(relayed)
    }
    const invalid = read('GET', [Buffer.from(sent), Buffer.from('2\r\nde\r\n-4\r\ndefg\r\n')], false, true)
    expect([invalid.end, invalid.body]).toEqual(['invalid', '3\r\nabc\r\n'])
  })

  test('an answer whose first chunks are rubbish gives nothing away, relayed or not', () => {
    for (const relays of [true, false]) {
      expect(read('GET', [Buffer.from(`${HEAD}3\r\nabc\r\nx\r\n`)], false, relays)).toMatchObject({ end: 'invalid', body: '' })
    }
  })

  test('it is known whether the last of them is whole', () => {
    const reader = new ResponseReader()
    reader.begin('GET', false, sinkOf(newOutcome(), true))
    const states = [...`${HEAD}2\r\nab\r\n0\r\n\r\n`].map((character) => {
      reader.push(Buffer.from(character), 0, 1)
      return reader.isInsideRelayedChunk
    })
    const inside = [...'2\r\nab\r\n'].map((_, i) => i >= 2 && i < 6)
    expect(states).toEqual([...HEAD.split('').map(() => false), ...inside, ...'0\r\n\r\n'.split('').map(() => false)])
  })
})

describe('the end of the connection', () => {
  test.each([
    ['before any byte', '', false],
    ['in a head', 'HTTP/1.1 200 OK\r\n', false],
    ['after an interim answer', 'HTTP/1.1 100 Continue\r\n\r\n', false],
    ['in a body with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhalf', false],
    ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf', false],
    ['between chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n', false],
    ['in the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', false],
    ['in trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n', false],
    ['in a body without a length', 'HTTP/1.1 200 OK\r\n\r\nhalf', true],
    ['after a whole answer', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull', true],
  ])('%s', (_where, text, isWhole) => {
    const outcome = newOutcome()
    const reader = new ResponseReader()
    reader.begin('GET', false, sinkOf(outcome))
    const bytes = Buffer.from(text)
    reader.push(bytes, 0, bytes.length)
    expect(reader.finish()).toBe(isWhole)
    expect(outcome.trailers !== undefined).toBe(isWhole)
  })
})

interface Answer {
  readonly interims: [number, [string, string][]][]
  readonly version: string
  readonly status: number
  readonly reason: string
  readonly fields: [string, string][]
  readonly framing: string
  readonly pieces: [string, string][]
  readonly trailers: [string, string][]
  readonly isUpperCase: boolean
}

function write(answer: Answer): Answer & { readonly bytes: Buffer; readonly body: string; readonly framedLength: number } {
  const { interims, framing, isUpperCase, trailers } = answer
  const body = framing === 'none' ? '' : answer.pieces.map(([piece]) => piece).join('')
  let text = ''
  for (const [code, extra] of interims) text += `HTTP/1.1 ${code} Wait\r\n${lines(extra)}\r\n`
  text += `HTTP/${answer.version} ${answer.status} ${answer.reason}\r\n${lines(answer.fields)}`
  if (framing === 'length') text += `${isUpperCase ? 'CONTENT-LENGTH' : 'content-length'}:${body.length}\r\n`
  if (framing === 'none') text += 'Content-Length: 0\r\n'
  if (framing === 'chunks') text += `Transfer-Encoding: ${isUpperCase ? 'CHUNKED' : 'chunked'}\r\n`
  const framed = framing === 'chunks' ? `${inChunks(answer.pieces, isUpperCase)}0\r\n${lines(trailers)}\r\n` : body
  return { ...answer, body, bytes: Buffer.from(`${text}\r\n${framed}`, 'latin1'), framedLength: framed.length }
}

function inChunks(pieces: [string, string][], isUpperCase: boolean): string {
  const chunks = pieces.filter(([piece]) => piece !== '')
  return chunks.map(([piece, ext]) => `${sizeText(piece.length, isUpperCase)}${ext}\r\n${piece}\r\n`).join('')
}

function sizeText(size: number, isUpperCase: boolean): string {
  const text = size.toString(16)
  return isUpperCase ? text.toUpperCase() : `0${text}`
}

function lines(pairs: [string, string][]): string {
  return pairs.map(([name, text]) => `${name}: ${text}\r\n`).join('')
}

/** Changes an answer in up to three places: takes bytes out, puts junk in, or repeats what is there. */
function mutations(): fc.Arbitrary<(bytes: Buffer) => Buffer> {
  const mutation = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    kind: fc.constantFrom('remove', 'insert', 'repeat', 'line'),
    length: fc.integer({ min: 1, max: 4 }),
    junk: anyJunk,
  })
  return fc.array(mutation, { minLength: 1, maxLength: 3 }).map((changes) => (original) => {
    let text = original.toString('latin1')
    for (const { at, kind, length, junk } of changes) {
      const place = Math.round(at * text.length)
      if (kind === 'remove') text = text.slice(0, place) + text.slice(place + length)
      else if (kind === 'insert') text = text.slice(0, place) + junk + text.slice(place)
      else if (kind === 'repeat') text = text.slice(0, place) + text.slice(place, place + length) + text.slice(place)
      else {
        const line = text.indexOf('\r\n', place)
        if (line >= 0) text = text.slice(0, line + 2) + junk + text.slice(line + 2)
      }
    }
    return Buffer.from(text, 'latin1')
  })
}

test('a head is read for what it is, however much it is like the one before', () => {
  const text = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\n\r\nhi'
  const other = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n')
  const usual = read('GET', [Buffer.from(text)])
  expect(usual).toMatchObject({ head: { status: 200, fields: ['Content-Length', '2', 'X-A', '1'] }, body: 'hi', end: 'whole' })
  for (let at = 0; at < text.length; at++) {
    for (const replacement of ['1', ' ', '\n', 'é']) {
      const changed = Buffer.from(`${text.slice(0, at)}${replacement}${text.slice(at + 1)}`, 'latin1')
      read('GET', [other])
      const alone = read('GET', [changed])
      expectSame(read('GET', [Buffer.from(text)]), usual)
      expectSame(read('GET', [changed]), alone)
    }
  }
  // What a head means depends on the request, too.
  expect(read('HEAD', [Buffer.from(text)])).toMatchObject({ body: '', rest: 'hi', end: 'whole' })
  expect(read('GET', [Buffer.from(text)])).toEqual(usual)
})

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((place, i) => bytes.subarray(places[i], place))
}

function bytewise(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
}

/** `toEqual`, and cheap where all is well. */
function expectSame(actual: object, expected: object): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected)
}

/** Reads an answer and then the end of its connection. */
function read(method: string, chunks: readonly Buffer[], isUpgradeAsked = false, relaysChunks = false): Outcome {
  const outcome = newOutcome()
  const reader = new ResponseReader()
  reader.begin(method, isUpgradeAsked, sinkOf(outcome, relaysChunks))
  try {
    for (const chunk of chunks) {
      if (reader.isDone || reader.isUpgraded) outcome.rest += chunk.toString('latin1')
      else outcome.rest += pushShared(reader, chunk)
    }
    if (reader.isUpgraded) outcome.end = 'upgraded'
    else if (reader.finish()) outcome.end = 'whole'
  } catch (error) {
    if (!(error instanceof InvalidResponse)) throw error
    outcome.end = 'invalid'
  }
  return outcome
}

/** Reads from the middle of a buffer that is used for every read, and overwritten behind each. Returns the bytes behind the answer. */
function pushShared(reader: ResponseReader, chunk: Buffer): string {
  const shared = SHARED
  const to = OFFSET + chunk.copy(shared, OFFSET)
  shared.write('\r\n\r\n', to)
  try {
    const unread = reader.push(shared, OFFSET, to)
    return shared.toString('latin1', to - unread, to)
  } finally {
    shared.fill('!', 0, to)
  }
}

const SHARED = Buffer.alloc(300 * 1024)
const OFFSET = 3

/** What must not depend on the chunks. Bytes behind an invalid answer are nobody's. */
function judged({ rest, ...outcome }: Outcome): object {
  return outcome.end === 'invalid' ? outcome : { ...outcome, rest }
}

function newOutcome(): Outcome {
  return { interims: [], head: undefined, body: '', trailers: undefined, end: 'unfinished', rest: '' }
}

function sinkOf(outcome: Outcome, relaysChunks = false): Parameters<ResponseReader['begin']>[2] {
  return {
    onInterim: (head) => void outcome.interims.push(head),
    onHead: (head) => {
      inTurn(outcome.head === undefined)
      outcome.head = head
    },
    relaysChunks: () => relaysChunks,
    onData: (chunk) => {
      inTurn(outcome.head !== undefined && outcome.trailers === undefined)
      outcome.body += chunk.toString('latin1')
    },
    onEnd: (trailers) => {
      inTurn(outcome.head !== undefined && outcome.trailers === undefined)
      outcome.trailers = trailers
    },
  }
}

/** In place of `expect`, which takes longer than all the rest where it is asked for each byte. */
function inTurn(isInTurn: boolean): void {
  if (!isInTurn) throw new Error('the reader told something out of turn')
}

interface NodeAnswer {
  readonly status: number
  readonly fields: readonly string[]
  readonly body: string
  readonly trailers: readonly string[]
}

/** What the client of node:http makes of these bytes and then the end of the connection; undefined: it refuses them. */
function readByNode(method: string, answer: Buffer): Promise<NodeAnswer | undefined> {
  return new Promise((resolve) => {
    const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done(), allowHalfOpen: true })
    const req = request({ method, createConnection: () => socket as never, agent: undefined })
    req.on('error', () => resolve(undefined))
    req.on('response', (res) => {
      let body = ''
      res.on('data', (chunk: Buffer) => {
        body += chunk.toString('latin1')
      })
      res.on('error', () => resolve(undefined))
      res.on('end', () => {
        resolve(res.complete ? { status: res.statusCode!, fields: res.rawHeaders, body, trailers: res.rawTrailers } : undefined)
      })
    })
    req.end(() => {
      socket.push(answer)
      socket.push(null)
    })
  })
}
