import { Socket } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const OWN = { EDGE_PROXY_WIRE: 'own' }
const PLAIN = 'GET /plain HTTP/1.1\r\nHost: a\r\n\r\n'
const LAST = 'GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

/** Each is no plain request, and gets its answer all the same. */
const ODD: readonly (readonly [what: string, bytes: string, status: number])[] = [
  ['HTTP/1.0', 'GET /odd HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n', 200],
  ['another option of Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: X-A\r\nX-A: b\r\n\r\n', 200],
  ['two lines of Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n', 200],
  ['Proxy-Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n', 200],
  ['Trailer', 'POST /odd HTTP/1.1\r\nHost: a\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n', 200],
  ['an expectation', 'POST /odd HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi', 200],
  ['the absolute form', 'GET http://a/odd HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['white space around a value', 'GET /odd HTTP/1.1\r\nHost: a\r\nX-A: \t b \r\n\r\n', 200],
  ['empty lines before the request', '\r\n\r\nGET /odd HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['a path of our own', 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['two lengths', 'POST /odd HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi', 400],
  ['two framings', 'POST /odd HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  ['a folded line', 'GET /odd HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n', 400],
  ['a bare LF', 'GET /odd HTTP/1.1\nHost: a\r\n\r\n', 400],
  ['a method in lower case', 'get /odd HTTP/1.1\r\nHost: a\r\n\r\n', 400],
]

test.each(['Content-Length: 5\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n5'])(
  'the backend gets a head without waiting for a body of which nothing has come: %j',
  async (rest) => {
    const backend = await HttpBackend.start((_req, res) => void res.end('early'))
    const edge = await proxying(backend, { env: OWN })
    const client = RawClient.connect(edge.port)
    // From here on there is a connection to the backend.
    client.send(PLAIN)
    await client.sees('early')
    client.send(`POST /late HTTP/1.1\r\nHost: a\r\n${rest}`)
    await until(() => statusesIn(client.received).length === 2)
    expect(statusesIn(client.received)).toEqual([200, 200])
  },
)

describe('what is no plain request is left to node:http, for good', () => {
  const suite = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(await seen.body()), 0, suite)
    edge = await proxying(backend, { env: OWN }, suite)
  })

  test.each(ODD)('%s', async (_what, bytes, status) => {
    const alone = statusesIn(await answerBytes(edge.port, `${bytes}${LAST}`)).filter((each) => each >= 200)
    expect(alone[0]).toBe(status)
    // Behind plain requests it is the same, with all that follows, in the order in which they came.
    const behind = statusesIn(await answerBytes(edge.port, `${PLAIN.repeat(3)}${bytes}${LAST}`)).filter((each) => each >= 200)
    expect(behind).toEqual([200, 200, 200, ...alone])
  })

  test('and none of its bytes is lost, wherever the connection was cut in pieces', async () => {
    const backend = await HttpBackend.start(async (req, res, seen) => void res.end(`${req.url} ${(await seen.body()).toString()}`))
    const edge = await proxying(backend, { env: OWN })
    const upload = 'POST /odd HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 10\r\n\r\n0123456789'
    const bytes = `${PLAIN}${upload}`
    for (let at = 1; at < bytes.length; at += 11) {
      const client = RawClient.connect(edge.port)
      client.send(bytes.slice(0, at))
      await new Promise(setImmediate)
      client.send(bytes.slice(at))
      await client.sees('/odd 0123456789')
      expect(client.received).toMatch(/\/plain .*\/odd 0123456789/s)
      client.socket.destroy()
    }
  })

  test('nor of a body that came with it, and waits until the backend takes it', async () => {
    const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(await seen.body()))
    const edge = await proxying(backend, { env: OWN })
    const upload = 'POST /odd HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789'
    expect(await answerBytes(edge.port, upload)).toContain('0123456789')
  })
})

describe('a sweep ends what takes too long', () => {
  const time = heldTime()
  const env = { ...OWN, EDGE_HEADERS_TIMEOUT_MS: '60000', EDGE_REQUEST_TIMEOUT_MS: '60000', EDGE_KEEPALIVE_MS: '600000' }
  const TOO_LONG_MS = 90_000

  test('a connection on which nothing comes is closed without a word', async () => {
    const edge = await proxying(await HttpBackend.start(), { env })
    const silent = RawClient.connect(edge.port)
    await untilRead(edge)
    time.pass(TOO_LONG_MS)
    expect(await silent.closed()).toBe('')
    expect(edge.logged('refused')).toEqual([])
  })
})

test('chunks of a byte come whole, many or one at a time', async () => {
  const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(await seen.body()))
  const edge = await proxying(backend, { env: OWN })
  const text = 'The quick brown fox jumps over the lazy dog.'
  const chunks = [...text].map((char) => `1;a="b"\r\n${char}\r\n`).join('')
  const bytes = `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\nX-Trailer: c\r\n\r\n`
  for (const step of [bytes.length, 1, 5]) {
    const client = RawClient.connect(edge.port)
    for (let at = 0; at < bytes.length; at += step) {
      client.send(bytes.slice(at, at + step))
      await new Promise(setImmediate)
    }
    await client.sees(text)
  }
})

test('the same where this version of Node cannot share read buffers', async () => {
  hideFromSharing()
  const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(await seen.body()))
  const edge = await proxying(backend, { env: OWN })
  const body = 'x'.repeat(300_000)
  const upload = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const received = await answerBytes(edge.port, `${PLAIN}${upload}${PLAIN}${LAST}`)
  expect(statusesIn(received)).toEqual([200, 200, 200, 200])
  expect(received.split('x').length).toBe(body.length + 1)
})

/** Whoever asks now is answered after everything was read that had been sent before. */
async function untilRead(edge: Edge): Promise<void> {
  for (let i = 0; i < 2; i++) await edge.get('/livez')
}

/** Accepted sockets cannot share a buffer; those that connect to the backend have it by a public option. */
function hideFromSharing(): void {
  const probe = new Socket()
  probe.connect(1, '127.0.0.1').on('error', () => {})
  const prototype = Object.getPrototypeOf((probe as Socket & { _handle: object })._handle) as { useUserBuffer?: unknown }
  probe.destroy()
  const { useUserBuffer: value } = prototype
  const get = (): unknown => (new Error('who asks').stack!.includes('shared-reads') ? undefined : value)
  Object.defineProperty(prototype, 'useUserBuffer', { get, configurable: true })
  // It is inherited.
  onTestFinished(() => void Reflect.deleteProperty(prototype, 'useUserBuffer'))
}
