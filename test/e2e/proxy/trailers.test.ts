import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient } from '../../support/proxy/proxy.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n'

describe("an answer's trailers", () => {
  test('arrive, with their names announced, in order and as they came', async () => {
    const trailers = 'X-Sum: abc\r\nx-lower: 1\r\nX-Sum: def\r\nX-Latin: \xe9\r\nX-Empty: \r\nGrpc-Status: 0\r\n'
    const backend = await RawBackend.saying(
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, x-lower\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`,
    )
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, GET)
    expect(received).toMatch(/\r\nTrailer: X-Sum, x-lower\r\n/)
    expect(received.endsWith(`\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`)).toBe(true)
    expect(backend.received).toContain('TE: trailers\r\n')
  })

  test('arrive when they were not announced', async () => {
    const edge = await proxying(await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n\r\n'))
    expect((await answerBytes(edge.port, GET)).endsWith('\r\n\r\n0\r\nX-T: 1\r\n\r\n')).toBe(true)
  })

  test('arrive through two real ends of node:http', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { Trailer: 'X-T' })
      res.write('body')
      res.addTrailers({ 'X-T': 'late' })
      res.end()
    })
    const edge = await proxying(backend)
    const trailers = await new Promise((resolve, reject) => {
      request({ port: edge.port, host: '127.0.0.1', agent: false }, (res) => {
        res.resume().on('end', () => resolve(res.trailers))
      })
        .on('error', reject)
        .end()
    })
    expect(trailers).toEqual({ 'x-t': 'late' })
  })

  test('that would frame or route are left out', async () => {
    const bad =
      'Content-Length: 7\r\nTransfer-Encoding: chunked\r\nHost: b\r\nConnection: close\r\nTrailer: x\r\nSet-Cookie: a=b\r\nX-Good: 1\r\n'
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${bad}\r\n`))
    expect((await answerBytes(edge.port, GET)).endsWith('\r\n2\r\nok\r\n0\r\nX-Good: 1\r\n\r\n')).toBe(true)
  })

  test('pass only where their fields would: no RateLimit beside ours, no X-Edge-*, nothing that Connection names', async () => {
    const trailers =
      'RateLimit-Remaining: 99\r\nratelimit: "theirs";r=99\r\nX-Edge-Reason: x\r\nx-edge-debug-policy: x\r\nX-Named: 1\r\nX-Good: 1\r\n'
    const backend = await RawBackend.saying(
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Named\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`,
    )
    const limited = await proxying(backend, {
      clock: new ManualClock(),
      bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 9)] })),
    })
    const received = await answerBytes(limited.port, GET)
    expect(received).toContain('RateLimit-Remaining: 8\r\n')
    expect(received.endsWith('\r\n2\r\nok\r\n0\r\nX-Good: 1\r\n\r\n')).toBe(true)
    const unlimited = await proxying(backend)
    const kept = 'RateLimit-Remaining: 99\r\nratelimit: "theirs";r=99\r\nX-Good: 1\r\n'
    expect((await answerBytes(unlimited.port, GET)).endsWith(`\r\n2\r\nok\r\n0\r\n${kept}\r\n`)).toBe(true)
  })

  test('announced for an answer that has none by its framing: no trouble', async () => {
    for (const head of [
      '200 OK\r\nTrailer: X-T\r\nContent-Length: 2\r\n\r\nok',
      '204 No Content\r\nTrailer: X-T\r\n\r\n',
      '304 Not Modified\r\nTrailer: X-T\r\n\r\n',
    ]) {
      const edge = await proxying(await RawBackend.saying(`HTTP/1.1 ${head}`))
      const received = await answerBytes(edge.port, GET)
      expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${head.slice(0, 3)} `))
      expect(received).not.toMatch(/Trailer/i)
    }
  })

  test.each([
    ['a bare LF', 'X-T: 1\n\r\n\r\n'],
    ['NUL', 'X-T: \x00\r\n\r\n'],
    ['no colon', 'X-T\r\n\r\n'],
    ['a folded line', 'X-T: 1\r\n 2\r\n\r\n'],
    ['too many of them', `X-T: ${'x'.repeat(70_000)}\r\n\r\n`],
  ])('that are none (%s): the answer is broken off, not completed', async (_what, trailers) => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('2\r\nok\r\n')
    backend.connections[0]!.socket.write(`0\r\n${trailers}`)
    expect((await client.closed()).endsWith('2\r\nok\r\n')).toBe(true)
    expect(client.errorCode).toBe('ECONNRESET')
  })
})
