import { beforeAll, describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, statusesIn, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
const pathsIn = (received: string): string[] => [...received.matchAll(/^[A-Z]+ (\S+) HTTP/gm)].map(([, path]) => path!)

describe('one request of a connection is under way', () => {
  test('what a client pipelines behind it stays unread, beyond the first few', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    const request = `GET / HTTP/1.1\r\nHost: a\r\nX-Pad: ${'p'.repeat(8000)}\r\n\r\n`
    // What is taken is in the buffers of the system.
    await writeUntilStuck(client.socket, Buffer.from(request.repeat(100)))
    expect([backend.heads, client.isClosed]).toEqual([1, false])
  })

  test('bodies and leave to send them come in turn', async () => {
    const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(String((await seen.body()).length)))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    const upload = (length: number, more = ''): string => `POST / HTTP/1.1\r\nHost: a\r\n${more}Content-Length: ${length}\r\n\r\n`
    // Far more than Node keeps of a body that nobody reads.
    client.send(`${upload(5)}12345${upload(1_000_000)}${'x'.repeat(1_000_000)}${get('/')}${upload(3, 'Expect: 100-continue\r\n')}`)
    await client.sees('HTTP/1.1 100 ')
    client.send(`123${get('/')}`)
    await until(() => statusesIn(client.received).length === 6)
    expect(statusesIn(client.received)).toEqual([200, 200, 200, 100, 200, 200])
    expect(await Promise.all(backend.seen.map(async ({ body }) => (await body()).length))).toEqual([5, 1_000_000, 0, 3, 0])
  })

  test('a WebSocket behind others begins when they are answered, and loses no byte', async () => {
    const backend = await RawBackend.start(({ socket, received }) => void socket.write(received.startsWith('GET /w') ? SWITCHED : ''))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`${get('/1')}${WEB_SOCKET}early`)
    await until(() => backend.heads === 1)
    client.send('late')
    expect(pathsIn(backend.received)).toEqual(['/1'])
    // Larger than a socket takes at once
    const body = 'x'.repeat(3_000_000)
    backend.connections[0]!.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await client.sees(' 101 ')
    expect(statusesIn(client.received)).toEqual([200, 101])
    await until(() => backend.received.endsWith('earlylate'))
  })

  test.each(['nonsense'])('a request that asks for %s behind others is an ordinary one in its turn', async (protocol) => {
    const backend = await HttpBackend.start((req, res) => void res.setHeader('Content-Length', req.url!.length).end(req.url))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    const upgrade = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`
    client.send(['/1', '/2', '/3', '/4'].map((path, i) => (i % 2 === 0 ? get(path) : upgrade(path))).join(''))
    for (const path of ['/1', '/2', '/3', '/4']) expect((await client.next()).body).toBe(path)
  })
})

describe('what is malformed behind complete requests costs none of them its answer', () => {
  const POST = 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi'
  const LONG_HEAD = `GET /b HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`
  const BAD_CHUNK = 'POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'
  const rows: [what: string, bytes: string, status: number][] = [
    ['garbage', 'GARBAGE\r\n\r\n', 400],
    ['a head that is too large', LONG_HEAD, 431],
    ['a request with a malformed body', BAD_CHUNK, 400],
    ['CONNECT', 'CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n', 405],
  ]
  const behind = [1, 2, 40].flatMap((count) => rows.map(([what, bytes, status]) => [what, count, bytes, status] as const))

  const suite = thisSuite()
  const clock = new ManualClock()
  let [backend, edge]: [backend: HttpBackend, edge: Edge] = [] as never
  beforeAll(async () => {
    backend = await HttpBackend.start(async (_req, res, seen) => void res.end((await seen.body()).toString()), 0, suite)
    edge = await proxying(backend, { clock }, suite)
  })

  test.each(behind)('%s behind %i', async (_what, count, bytes, status) => {
    backend.seen.length = 0
    // Refusals are logged once a second.
    clock.advance(1000)
    const refused = edge.logged('refused').length
    const received = await answerBytes(edge.port, POST.repeat(count) + bytes)
    expect(statusesIn(received)).toEqual([...Array<number>(count).fill(200), status])
    expect(received.split('\r\n\r\nhi').length).toBe(count + 1)
    expect(backend.seen.map(({ url }) => url)).toEqual(Array(count).fill('/a'))
    expect(await untilLogged(edge, 'refused', refused + 1)).toHaveLength(refused + 1)
  })
})
