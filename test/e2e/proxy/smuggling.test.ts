import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { answerHello, HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, proxyOptions, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { HIDDEN, REFUSED } from '../../support/proxy/two-downstreams/smuggling-vectors.ts'
import { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

let backend: HttpBackend
let edge: Edge
beforeAll(async () => {
  backend = await HttpBackend.listen()
  edge = await Edge.start(proxyOptions(backend))
})
afterAll(async () => {
  await edge.stop()
  await backend.close()
})
beforeEach(() => {
  backend.seen.length = 0
  backend.handler = answerHello
})

describe('a request that two readers could read in two ways', () => {
  test.each(REFUSED)('%s: 400, one answer, the connection closed, the backend untouched', async (_what, bytes) => {
    const refusedBefore = await edge.metric('edge_refused_requests_total{reason="bad_request"}')
    const received = await answerBytes(edge.port, bytes)
    expect(statusesIn(received)).toEqual([400])
    const answer = readAnswer(received)
    expect(valuesOf(answer, 'X-Edge-Reason')).toEqual(['bad_request'])
    expect(valuesOf(answer, 'Connection')).toEqual(['close'])
    expect(valuesOf(answer, 'Content-Type')).toEqual(['application/json'])
    expect(JSON.parse(answer.body).error).toMatchObject({ type: 'invalid_request_error', code: 'bad_request' })
    // Whatever came behind it would have been sent by now: the next request is.
    expect((await edge.get('/after')).status).toBe(200)
    expect(backend.seen.map(({ url }) => url)).toEqual(['/after'])
    expect(await edge.metric('edge_refused_requests_total{reason="bad_request"}')).toBe(refusedBefore + 1)
  })

  test('takes nothing from any bucket', async () => {
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 2)] })) })
    for (const [, bytes] of REFUSED.slice(0, 10)) await answerBytes(edge.port, bytes)
    expect((await edge.get('/')).headers['ratelimit-remaining']).toBe('1')
  })

  test('a head that is too large: 431', async () => {
    const received = await answerBytes(edge.port, `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${'x'.repeat(70_000)}\r\n\r\n`)
    expect(statusesIn(received)).toEqual([431])
    expect(received).toContain('X-Edge-Reason: bad_request\r\n')
    expect(backend.seen).toEqual([])
  })

  test('many fields are all seen: none is dropped on the way', async () => {
    const backend = await HttpBackend.start()
    backend.server.maxHeadersCount = 0 // as many as come
    const edge = await proxying(backend)
    const fields = Array.from({ length: 1500 }, (_, i) => `X-${i}: ${i}\r\n`).join('')
    expect((await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields}\r\n`)).status).toBe(200)
    expect(backend.only.headers['x-1499']).toBe('1499')
  })
})

describe('what is no trouble', () => {
  test.each([
    ['Host with a port', 'GET / HTTP/1.1\r\nHost: a:8080\r\n'],
    ['Host that is an IPv6 address', 'GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n'],
    ['HTTP/1.0 without Host', 'GET / HTTP/1.0\r\n'],
    ['the absolute form of Host', 'GET http://a/ HTTP/1.1\r\nHost: a\r\n'],
    ['the absolute form in other letters and with the default port', 'GET HTTP://A:80/ HTTP/1.1\r\nHost: a\r\n'],
    ['the absolute form without a path', 'GET http://a HTTP/1.1\r\nHost: a\r\n'],
    ['empty lines before the request', '\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n'],
    ['white space around a value', 'GET / HTTP/1.1\r\nHost: \t a \t\r\n'],
  ])('%s', async (_what, head) => {
    expect((await askRaw(edge.port, `${head}Connection: close\r\n\r\n`)).status).toBe(200)
    expect(backend.only.url).toBe('/')
  })

  test('Chunked in other letters', async () => {
    const bytes = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    expect((await askRaw(edge.port, bytes)).status).toBe(200)
    expect((await backend.only.body()).toString()).toBe('abc')
  })
})

describe('a body is one request to the backend', () => {
  const INNER = 'GET /hidden HTTP/1.1\r\nHost: b\r\n\r\n'
  const CHUNKED = `Transfer-Encoding: chunked\r\n\r\n${INNER.length.toString(16)}\r\n${INNER}\r\n0\r\n\r\n`
  const COUNTED = `Content-Length: ${INNER.length}\r\n\r\n${INNER}`

  test.each(
    ['GET', 'DELETE', 'HEAD', 'OPTIONS', 'POST', 'TRACE'].flatMap((method) => [
      [method, 'chunks', CHUNKED] as const,
      [method, 'a length', COUNTED] as const,
    ]),
  )('%s with %s that looks like a request', async (method, _framing, framed) => {
    const client = RawClient.connect(edge.port)
    client.send(`${method} /outer HTTP/1.1\r\nHost: a\r\n${framed}GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    await client.closed()
    expect(statusesIn(client.received)).toEqual([200, 200])
    expect(backend.seen.map(({ url }) => url).sort()).toEqual(['/next', '/outer'])
    const outer = backend.seen.find(({ url }) => url === '/outer')!
    expect((await outer.body()).toString()).toBe(INNER)
  })

  test('a chunked GET keeps its framing on the wire', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    const edge = await proxying(backend)
    await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${CHUNKED}`)
    await until(() => backend.received.endsWith('\r\n0\r\n\r\n'))
    expect(backend.received).toMatch(/\r\nTransfer-Encoding: chunked\r\n/)
    expect(backend.received).not.toMatch(/Content-Length/i)
    expect(backend.received.endsWith(`\r\n\r\n${INNER.length.toString(16)}\r\n${INNER}\r\n0\r\n\r\n`)).toBe(true)
  })

  test.each([
    ['a size that is no number', 'xyz\r\nabc\r\n0\r\n\r\n'],
    ['a negative size', '-3\r\nabc\r\n0\r\n\r\n'],
    ['a size with 0x', '0x3\r\nabc\r\n0\r\n\r\n'],
    ['a size beyond all measure', 'fffffffffffffffff\r\nabc\r\n0\r\n\r\n'],
    ['a chunk longer than its size', '3\r\nabcd\r\n0\r\n\r\n'],
    ['a bare LF after the size', '3\nabc\r\n0\r\n\r\n'],
    ['a bare LF after the data', '3\r\nabc\n0\r\n\r\n'],
    ['a bare CR in an extension', '3;a\rb\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF in an extension', '3;a\nb\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF at the end', '3\r\nabc\r\n0\r\n\n'],
  ])('chunks that are none: %s: the connection is closed, the backend call broken off, nothing behind it served', async (_what, chunks) => {
    const received = await answerBytes(edge.port, `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}${HIDDEN}`)
    expect(statusesIn(received).filter((status) => status !== 400)).toEqual([])
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    for (const seen of backend.seen) {
      expect(seen.url).toBe('/')
      await expect(seen.body()).rejects.toThrow()
    }
    expect((await edge.get('/after')).status).toBe(200)
    expect(backend.seen.map(({ url }) => url)).not.toContain('/hidden')
  })
})

test('a client that goes on with what nobody can read still gets its 400', async () => {
  const backend = await RawBackend.saying('')
  const edge = await proxying(backend)
  const client = RawClient.connect(edge.port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n')
  for (let i = 0; i < 20; i++) client.send('more of it\r\n')
  expect(statusesIn(await client.closed())).toEqual([400])
})
