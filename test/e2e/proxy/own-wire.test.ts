import { Socket } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { NodeDownstream } from '../../../src/proxy/node-http/node-downstream.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const OWN = { EDGE_PROXY_WIRE: 'own' }
const PLAIN = 'GET /plain HTTP/1.1\r\nHost: a\r\n\r\n'
const LAST = 'GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

/** Each is no plain request, and gets its answer all the same. */
const ODD: readonly (readonly [what: string, bytes: string, status: number])[] = [
  ['Connection: close', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 200],
  ['TE', 'GET /odd HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n', 200],
  ['Upgrade', 'GET /odd HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n', 200],
  ['two Hosts', 'GET /odd HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 400],
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

test.each(['Transfer-Encoding: chunked\r\n\r\n'])(
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
    expect((await untilLogged(edge, 'refused'))[0]).toMatchObject({ reason: 'bad_request', detail: 'Request timeout' })
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

/** Whoever asks now is answered after everything was read that had been sent before. */
async function untilRead(edge: Edge): Promise<void> {
  for (let i = 0; i < 2; i++) await edge.get('/livez')
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
