import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { askRaw, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { CHUNKED, COUNTED, expectBrokenOff, expectOneRequest, expectRefused, oneProxy } from '../../support/proxy/smuggled.ts'
import { REFUSED } from '../../support/proxy/two-downstreams/smuggling-vectors.ts'

const proxy = oneProxy()

describe('a request that two readers could read in two ways', () => {
  test.each(REFUSED.filter((_, i) => i % 8 > 0))('%s: 400, one answer, the connection closed, the backend untouched', (_what, bytes) =>
    expectRefused(proxy, bytes),
  )

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
    ['HTTP/1.0 without Host', 'GET / HTTP/1.0\r\n'],
    ['the absolute form in other letters and with the default port', 'GET HTTP://A:80/ HTTP/1.1\r\nHost: a\r\n'],
    ['the absolute form without a path', 'GET http://a HTTP/1.1\r\nHost: a\r\n'],
    ['empty lines before the request', '\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n'],
    ['white space around a value', 'GET / HTTP/1.1\r\nHost: \t a \t\r\n'],
  ])('%s', async (_what, head) => {
    expect((await askRaw(proxy.edge.port, `${head}Connection: close\r\n\r\n`)).status).toBe(200)
    expect(proxy.backend.only.url).toBe('/')
  })
})

describe('a body is one request to the backend', () => {
  test.each([
    ['DELETE', 'chunks', CHUNKED],
    ['DELETE', 'a length', COUNTED],
    ['GET', 'a length', COUNTED],
    ['HEAD', 'chunks', CHUNKED],
    ['HEAD', 'a length', COUNTED],
    ['OPTIONS', 'chunks', CHUNKED],
    ['OPTIONS', 'a length', COUNTED],
    ['POST', 'chunks', CHUNKED],
    ['TRACE', 'chunks', CHUNKED],
    ['TRACE', 'a length', COUNTED],
  ])('%s with %s that looks like a request', (method, _framing, framed) => expectOneRequest(proxy, method, framed))

  test.each([
    ['a negative size', '-3\r\nabc\r\n0\r\n\r\n'],
    ['a size with 0x', '0x3\r\nabc\r\n0\r\n\r\n'],
    ['a size beyond all measure', 'fffffffffffffffff\r\nabc\r\n0\r\n\r\n'],
    ['a chunk longer than its size', '3\r\nabcd\r\n0\r\n\r\n'],
    ['a bare LF after the data', '3\r\nabc\n0\r\n\r\n'],
    ['a bare CR in an extension', '3;a\rb\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF in an extension', '3;a\nb\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF at the end', '3\r\nabc\r\n0\r\n\n'],
  ])('chunks that are none: %s: the connection is closed, the backend call broken off, nothing behind it served', (_what, chunks) =>
    expectBrokenOff(proxy, chunks),
  )
})

test('a client that goes on with what nobody can read still gets its 400', async () => {
  const backend = await RawBackend.saying('')
  const edge = await proxying(backend)
  const client = RawClient.connect(edge.port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n')
  for (let i = 0; i < 20; i++) client.send('more of it\r\n')
  expect(statusesIn(await client.closed())).toEqual([400])
})
