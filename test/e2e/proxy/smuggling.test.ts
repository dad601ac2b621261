import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, statusesIn } from '../../support/proxy/proxy.ts'
import { CHUNKED, COUNTED, expectBrokenOff, expectOneRequest, expectRefused, INNER, oneProxy } from '../../support/proxy/smuggled.ts'
import { REFUSED } from '../../support/proxy/two-downstreams/smuggling-vectors.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const proxy = oneProxy()

describe('a request that two readers could read in two ways', () => {
  test.each(REFUSED.filter((_, i) => i % 8 === 0))('%s: 400, one answer, the connection closed, the backend untouched', (_what, bytes) =>
    expectRefused(proxy, bytes),
  )

  test('takes nothing from any bucket', async () => {
    const edge = await proxying(proxy.backend, {
      clock: new ManualClock(),
      bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 2)] })),
    })
    for (const [, bytes] of REFUSED.slice(0, 10)) await answerBytes(edge.port, bytes)
    expect((await edge.get('/')).headers['ratelimit-remaining']).toBe('1')
  })

  test('a head that is too large: 431', async () => {
    const received = await answerBytes(proxy.edge.port, `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${'x'.repeat(70_000)}\r\n\r\n`)
    expect(statusesIn(received)).toEqual([431])
    expect(received).toContain('X-Edge-Reason: bad_request\r\n')
    expect(proxy.backend.seen).toEqual([])
  })
})

describe('what is no trouble', () => {
  test.each([
    ['Host that is an IPv6 address', 'GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n'],
    ['the absolute form of Host', 'GET http://a/ HTTP/1.1\r\nHost: a\r\n'],
  ])('%s', async (_what, head) => {
    expect((await askRaw(proxy.edge.port, `${head}Connection: close\r\n\r\n`)).status).toBe(200)
    expect(proxy.backend.only.url).toBe('/')
  })

  test('Chunked in other letters', async () => {
    const bytes = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    expect((await askRaw(proxy.edge.port, bytes)).status).toBe(200)
    expect((await proxy.backend.only.body()).toString()).toBe('abc')
  })
})

describe('a body is one request to the backend', () => {
  test.each([
    ['GET', 'chunks', CHUNKED],
    ['POST', 'a length', COUNTED],
  ])('%s with %s that looks like a request', (method, _framing, framed) => expectOneRequest(proxy, method, framed))

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
    ['a bare LF after the size', '3\nabc\r\n0\r\n\r\n'],
  ])('chunks that are none: %s: the connection is closed, the backend call broken off, nothing behind it served', (_what, chunks) =>
    expectBrokenOff(proxy, chunks),
  )
})
