import { once } from 'node:events'
import { connect } from 'node:http2'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CONTINUATION, END_HEADERS, HAS_PRIORITY, HEADERS, PREFACE } from '../../src/doors/grpc/http2/frame-reader.ts'
import { HpackDecoder } from '../../src/doors/grpc/http2/hpack-decoder.ts'
import { RequestHead } from '../../src/doors/grpc/http2/request-head.ts'
import { framesIn, settings } from '../support/grpc/frames.ts'
import { runs } from '../support/run/property-runs.ts'
import { until } from '../support/until.ts'

const FIELD_BYTES = 32

const value = fc
  .string({ unit: fc.constantFrom(...'abcxyzABC019 -_./%~,;='), minLength: 1, maxLength: 200 })
  .map((text) => text.trim() || 'a')
const request = fc.record({
  path: value.map((text) => `/${text.replaceAll(' ', '')}`),
  timeout: fc.constantFrom('1S', '20m', '100u', '99999999n'),
  others: fc.dictionary(fc.constantFrom('x-request-id', 'traceparent', 'cookie', 'user-agent', 'x-b3-traceid', 'accept'), value),
})

/** Whatever node:http2 writes, from its first request to its last: its table and ours stay the same. */
test('requests of node:http2 are read as they were meant, one after the other on one connection', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 40 }), async (requests) => {
      const blocks = await blocksOf(
        requests.map(({ path, timeout, others }) => ({ ':method': 'POST', ':path': path, 'grpc-timeout': timeout, ...others })),
      )
      const decoder = new HpackDecoder()
      const heads = blocks.map((block) => {
        const head = new RequestHead()
        head.begin(false)
        expect(decoder.decode(block, 0, block.length, head)).toBe(true)
        head.end()
        return { path: head.path, method: head.method, timeout: head.timeout, bytes: head.bytes, isMalformed: head.isMalformed }
      })
      expect(heads).toEqual(
        requests.map(({ path, timeout, others }) => {
          const fields = [
            ...Object.entries(others),
            [':method', 'POST'],
            [':path', path],
            ['grpc-timeout', timeout],
            [':scheme', 'http'],
            [':authority', AUTHORITY],
          ]
          const bytes = fields.reduce((sum, [name, text]) => sum + name!.length + text!.length + FIELD_BYTES, 0)
          return { path, method: 'POST', timeout, bytes, isMalformed: false }
        }),
      )
    }),
    { numRuns: runs(2) },
  )
})

const AUTHORITY = '127.0.0.1:80'

/** The header blocks that node:http2 writes for these requests. */
async function blocksOf(requests: readonly Record<string, string>[]): Promise<Buffer[]> {
  let received = Buffer.alloc(0)
  const server = createServer((socket: Socket) => {
    socket.write(settings())
    socket.on('error', () => {}) // the client leaves when all is here
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {}) // as above
  for (const fields of requests) session.request({ ':authority': AUTHORITY, ...fields }).on('error', () => {})
  await until(() => blocksIn(received).length === requests.length)
  session.destroy()
  server.close()
  return blocksIn(received)
}

function blocksIn(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = []
  let block = Buffer.alloc(0)
  for (const { type, flags, payload } of framesIn(bytes.subarray(PREFACE.length)).frames) {
    if (type !== HEADERS && type !== CONTINUATION) continue
    block = Buffer.concat([block, payload.subarray((flags & HAS_PRIORITY) === 0 || type !== HEADERS ? 0 : 5)])
    if ((flags & END_HEADERS) === 0) continue
    blocks.push(block)
    block = Buffer.alloc(0)
  }
  return blocks
}
