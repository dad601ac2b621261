import { Socket } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { NodeDownstream } from '../../../src/proxy/node-http/node-downstream.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
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
  ['Connection: close', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 200],
  ['another option of Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: X-A\r\nX-A: b\r\n\r\n', 200],
  ['two lines of Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n', 200],
  ['Proxy-Connection', 'GET /odd HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n', 200],
  ['TE', 'GET /odd HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n', 200],
  ['Trailer', 'POST /odd HTTP/1.1\r\nHost: a\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n', 200],
  ['Upgrade', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n', 200],
  ['an expectation', 'POST /odd HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi', 200],
  ['the absolute form', 'GET http://a/odd HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['white space around a value', 'GET /odd HTTP/1.1\r\nHost: a\r\nX-A: \t b \r\n\r\n', 200],
  ['empty lines before the request', '\r\n\r\nGET /odd HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['a path of our own', 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', 200],
  ['two Hosts', 'GET /odd HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 400],
  ['two lengths', 'POST /odd HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi', 400],
  ['two framings', 'POST /odd HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  ['a folded line', 'GET /odd HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n', 400],
  ['a bare LF', 'GET /odd HTTP/1.1\nHost: a\r\n\r\n', 400],
  ['a method in lower case', 'get /odd HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n', 405],
]

test('a head that comes again is another request, and one that is nearly the same is another head', async () => {
  const backend = await HttpBackend.start(
    async (req, res, seen) => void res.end(`<${req.headers['x-a']} ${(await seen.body()).toString()}>`),
  )
  const edge = await proxying(backend, { env: OWN })
  const client = RawClient.connect(edge.port)
  const sent = [...'aaabaabbba'].map((name, i) => ({ name, body: `body ${i}` }))
  for (const { name, body } of sent) {
    client.send(`POST /same HTTP/1.1\r\nHost: a\r\nX-A: ${name}\r\nContent-Length: 6\r\n\r\n${body}`)
    await client.sees(`<${name} ${body}>`)
  }
  expect(statusesIn(client.received)).toEqual(sent.map(() => 200))
})

test.each(['Content-Length: 5\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n5'])(
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

  test('and plain requests never come there', async () => {
    const edge = await proxying(await HttpBackend.start(), { env: OWN })
    const head = vi.spyOn(NodeDownstream.prototype, 'head')
    onTestFinished(() => head.mockRestore())
    const client = RawClient.connect(edge.port)
    client.send(`${PLAIN}POST / HTTP/1.1\r\nHost: a\r\nconnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi${PLAIN}`)
    await until(() => statusesIn(client.received).length === 3)
    expect(head).not.toHaveBeenCalled()
    client.send('GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n')
    await until(() => statusesIn(client.received).length === 4)
    expect(head).toHaveBeenCalledOnce()
  })
})

describe('an answer that fits leaves in one write', () => {
  const rows: [what: string, bytes: string][] = [
    ['with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'],
    ['of nearly 16 KiB', `HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n${'x'.repeat(16_000)}`],
    ['in chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n'],
    ['in chunks, with trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\n\r\n'],
    ['without a body', 'HTTP/1.1 204 No Content\r\n\r\n'],
  ]

  test.each(rows)('%s', async (_what, bytes) => {
    const edge = await proxying(await RawBackend.saying(bytes), { env: OWN })
    const writes = clientWrites(edge)
    const client = RawClient.connect(edge.port)
    client.send(PLAIN)
    await until(() => client.received.includes('\r\n\r\n') && writes.length > 0)
    await client.sees(bytes.endsWith('0\r\n\r\n') ? '0\r\n\r\n' : bytes.slice(-4))
    expect(writes).toHaveLength(1)
  })

  test('a rejection too', async () => {
    const rules = [bucketRule('r', ['ip:address'], 1, 0.001)]
    const edge = await proxying(await HttpBackend.start(), { env: OWN, bundle: bundle(1, policy('p', { rules })) })
    const client = RawClient.connect(edge.port)
    client.send(PLAIN)
    await client.sees('hello')
    const writes = clientWrites(edge)
    client.send(PLAIN)
    await client.sees('"code":"token_bucket_exceeded"}}')
    expect(writes).toHaveLength(1)
  })
})

describe('a sweep ends what takes too long', () => {
  const time = heldTime()
  const env = { ...OWN, EDGE_HEADERS_TIMEOUT_MS: '60000', EDGE_REQUEST_TIMEOUT_MS: '60000', EDGE_KEEPALIVE_MS: '600000' }
  const TOO_LONG_MS = 90_000

  test('a head that does not come whole gets 408, on a new connection and behind a request', async () => {
    const edge = await proxying(await HttpBackend.start(), { env })
    const half = 'GET / HTTP/1.1\r\nHost: a\r\n'
    const first = RawClient.connect(edge.port)
    first.send(half)
    await untilRead(edge)
    time.pass(TOO_LONG_MS)
    expect(statusesIn(await first.closed())).toEqual([408])
    const second = RawClient.connect(edge.port)
    second.send(PLAIN)
    await second.sees('hello')
    second.send(half)
    await untilRead(edge)
    time.pass(TOO_LONG_MS)
    expect(statusesIn(await second.closed())).toEqual([200, 408])
    expect(edge.logged('refused')[0]).toMatchObject({ reason: 'bad_request', detail: 'Request timeout' })
  })

  test('a connection on which nothing comes is closed without a word', async () => {
    const edge = await proxying(await HttpBackend.start(), { env })
    const silent = RawClient.connect(edge.port)
    await untilRead(edge)
    time.pass(TOO_LONG_MS)
    expect(await silent.closed()).toBe('')
    expect(edge.logged('refused')).toEqual([])
  })
})

test('a client that half-closes in the middle of its head or body gets 400', async () => {
  const edge = await proxying(await RawBackend.start(() => {}), { env: OWN })
  for (const bytes of [
    'GET / HTTP/1.1\r\nHost: a\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf',
  ]) {
    const client = RawClient.connect(edge.port)
    client.socket.end(bytes)
    expect(statusesIn(await client.closed())).toEqual([400])
  }
  await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
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

/** What is written to clients from now on. */
function clientWrites(edge: Edge): unknown[] {
  const writes: unknown[] = []
  const { write } = Socket.prototype
  const spy = vi.spyOn(Socket.prototype, 'write').mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (this.localPort === edge.port) writes.push(args[0])
    return Reflect.apply(write, this, args) as boolean
  })
  onTestFinished(() => spy.mockRestore())
  return writes
}
