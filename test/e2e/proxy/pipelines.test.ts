import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
describe('one request of a connection is under way', () => {
  test('100 pipelined requests need one connection to the backend, and all are answered in order', async () => {
    const backend = await HttpBackend.start((req, res) => void res.setHeader('Content-Length', req.url!.length).end(req.url))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    const paths = Array.from({ length: 100 }, (_, i) => `/${i}`)
    client.send(paths.map(get).join(''))
    for (const path of paths) expect((await client.next()).body).toBe(path)
    expect(backend.connections).toBe(1)
    expect(backend.seen.map(({ url }) => url)).toEqual(paths)
  })

  test.each([3, 400])('of %i the others are not decided and take nothing while the first waits for the backend', async (count) => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const client = RawClient.connect(edge.port)
    client.send(get('/').repeat(count))
    await until(() => backend.heads === 1)
    const other = RawClient.connect(edge.port)
    other.send(get('/other'))
    await until(() => backend.heads === 2)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(2)
    // The client leaves without what waits ever having begun.
    client.socket.resetAndDestroy()
    backend.connections[0]!.socket.write(OK)
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 1)
    expect(backend.heads).toBe(2)
    const third = RawClient.connect(edge.port)
    third.send(get('/third'))
    await until(() => backend.heads === 3 || third.received !== '')
    expect([third.received, (await edge.get('/')).status]).toEqual(['', 429])
  })

  test('our own endpoints wait their turn too', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`${get('/slow')}${get('/livez')}`)
    await until(() => backend.heads === 1)
    backend.connections[0]!.socket.write(OK)
    expect((await client.next()).body).toBe('ok')
    expect((await client.next()).line).toBe('HTTP/1.1 200 OK')
  })

  test('behind a response that closes the connection nothing more is processed', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.end('hello'))
    const edge = await proxying(backend)
    // One that is ambiguous closes the connection.
    const received = await answerBytes(edge.port, `${get('/1')}GET /2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n${get('/3').repeat(40)}`)
    expect(statusesIn(received)).toEqual([200, 400])
    expect(backend.only.url).toBe('/1')
  })

  test.each(['h2c'])('a request that asks for %s behind others is an ordinary one in its turn', async (protocol) => {
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

  test('a response that is under way comes whole', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(POST)
    await client.sees('half')
    client.send('GARBAGE\r\n\r\nmore garbage')
    await until(() => backend.heads === 1)
    client.send('and more')
    backend.connections[0]!.socket.write('rest')
    const received = await client.closed()
    expect(statusesIn(received)).toEqual([200, 400])
    expect(received).toContain('halfrest')
  })
})
