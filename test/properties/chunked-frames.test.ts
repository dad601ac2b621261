import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChunkedFrames, MalformedChunks } from '../../src/proxy/wire/chunked-frames.ts'
import { runs } from '../support/run/property-runs.ts'

interface Outcome {
  readonly body: string
  readonly isWhole: boolean
  readonly isMalformed: boolean
}

const CHUNK = [
  '3\r\nabc\r\n',
  '0\r\n\r\n',
  '00003\r\nabc\r\n',
  'A\r\n0123456789\r\n',
  '0',
  '1',
  'f',
  'ffffffffffffffff',
  '10000000000000000',
]
const EXTENSIONS = [';a', ';a=b', ';a="b"', ';a="\\"x"', '=', '"', ';', '3;a=b\r\nabc\r\n', '0;a\r\n\r\n']
const TRAILERS = [
  '0\r\nX: y\r\n\r\n',
  'X: y\r\n',
  'X:\r\n',
  'X : y\r\n',
  ' X: y\r\n',
  ': ',
  'Content-Length: 3\r\n',
  'Transfer-Encoding: chunked\r\n',
]
const BYTES = ['\r\n', '\r', '\n', ' ', '\t', 'abc', '-', '(', '\x00', '\x0b', '\x7f', '\xe9']
const anyBody = fc
  .array(fc.constantFrom(...CHUNK, ...CHUNK, ...EXTENSIONS, ...TRAILERS, ...BYTES), { minLength: 1, maxLength: 8 })
  .map((parts) => parts.join(''))

test('chunks are read as Node reads them, wherever their pieces end', async () => {
  await fc.assert(
    fc.asyncProperty(anyBody, fc.nat(), async (text, cut) => {
      const at = cut % text.length
      const own = readOwn([text.slice(0, at), text.slice(at)])
      // Behind its end another request begins, which is no part of this.
      expect(own.outcome).toEqual(await readByNode(text.slice(0, own.end)))
      expect(own).toEqual(readOwn([text]))
    }),
    { numRuns: runs(80) },
  )
})

function readOwn(pieces: readonly string[]): { outcome: Outcome; end: number } {
  const frames = new ChunkedFrames()
  frames.begin()
  let body = ''
  let end = 0
  try {
    for (const piece of pieces) {
      const bytes = Buffer.from(piece, 'latin1')
      let at = 0
      while (at < bytes.length && !frames.isDone) {
        const next = frames.isInData ? frames.skipData(at, bytes.length) : at
        body += bytes.toString('latin1', at, next)
        at = next > at ? next : frames.skipFrame(bytes, at, bytes.length)
      }
      end += at
    }
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedChunks)
    return { outcome: { body: '', isWhole: false, isMalformed: true }, end: pieces.join('').length }
  }
  return { outcome: { body, isWhole: frames.isDone, isMalformed: false }, end }
}

async function readByNode(text: string): Promise<Outcome> {
  let [body, isWhole, isMalformed] = ['', false, false]
  const server = createServer((req) => {
    req.on('error', () => {})
    req.on('data', (chunk: Buffer) => {
      body += chunk.toString('latin1')
    })
    req.on('end', () => {
      isWhole = true
    })
  })
  server.on('clientError', () => {
    isMalformed = true
  })
  const stream = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() })
  server.emit('connection', Object.assign(stream, { setTimeout: () => stream }) as unknown as Socket)
  stream.push('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  stream.push(Buffer.from(text, 'latin1'))
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
  stream.destroy()
  return { body: isMalformed ? '' : body, isWhole: isWhole && !isMalformed, isMalformed }
}
