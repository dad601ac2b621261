import { describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import {
  CHUNKED,
  COUNTED,
  ENDLESS,
  end,
  expectFailure,
  expectHalfAnswer,
  expectInvalid,
  GET,
  POST,
  reset,
  say,
  sharedProxy,
} from '../../support/proxy/failing-backend.ts'
import { answerBytes, proxying, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

describe('a backend that does not answer', () => {
  test('has no address: 502 backend_refused', async () => {
    const edge = await proxying({ url: 'http://nowhere.invalid:1' })
    await expectFailure(edge, GET, 502, 'backend_refused')
  })

  test.each([
    ['resets at once', (backend: RawBackend) => backend.connections.at(-1)!.socket.resetAndDestroy()],
    [
      'closes before the blank line',
      (backend: RawBackend) => backend.connections.at(-1)!.socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n'),
    ],
    ['closes after an interim answer', (backend: RawBackend) => backend.connections.at(-1)!.socket.end('HTTP/1.1 100 Continue\r\n\r\n')],
  ])('%s: 502 backend_reset', async (_what, fail) => {
    const backend: RawBackend = await RawBackend.start(() => fail(backend))
    const edge = await proxying(backend)
    await expectFailure(edge, GET, 502, 'backend_reset')
    await expectFailure(edge, POST, 502, 'backend_reset')
  })

  test('closes during an upload: 502, and the client that still sends reads it', async () => {
    const backend = await RawBackend.start(({ socket }) => socket.resetAndDestroy())
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    await client.uploads(12_000_000)
    expect([statusesIn(client.received), client.errorCode]).toEqual([[502], undefined])
  })
})

describe('a backend that sends rubbish: 502 backend_invalid', () => {
  const RUBBISH: readonly (readonly [what: string, bytes: string])[] = [
    ['prose without an end', 'hello'],
    ['a banner of SSH', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a TLS alert', '\x15\x03\x01\x00\x02\x02\x46'],
    ['HTTP/2', '\x00\x00\x12\x04\x00\x00\x00\x00\x00'],
    ['HTTP/0.9', '<html>hello</html>'],
    ['another version', 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a version in lower case', 'http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a status below 100', 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n'],
    ['no status', 'HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n'],
    ['two spaces before the status', 'HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a tab in the status line', 'HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['BEL in the status text', 'HTTP/1.1 200 O\x07K\r\nContent-Length: 0\r\n\r\n'],
    ['DEL in the status text', 'HTTP/1.1 200 O\x7fK\r\nContent-Length: 0\r\n\r\n'],
    ['a bare CR in the status text', 'HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n'],
    ['a bare LF in the status text', 'HTTP/1.1 200 O\nK\r\nContent-Length: 0\r\n\r\n'],
    ['bare LFs alone', 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok'],
    ['NUL in a value', 'HTTP/1.1 200 OK\r\nX-A: b\x00c\r\nContent-Length: 0\r\n\r\n'],
    ['a control character in a value', 'HTTP/1.1 200 OK\r\nX-A: b\x01c\r\nContent-Length: 0\r\n\r\n'],
    ['a bare CR in a value', 'HTTP/1.1 200 OK\r\nX-A: b\rX-B: c\r\nContent-Length: 0\r\n\r\n'],
    ['a bare LF in a value', 'HTTP/1.1 200 OK\r\nX-A: b\nX-B: c\r\nContent-Length: 0\r\n\r\n'],
    ['a folded line', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
    ['a name beyond ASCII', 'HTTP/1.1 200 OK\r\nX-\xe9: b\r\nContent-Length: 0\r\n\r\n'],
    ['a field without a colon', 'HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n'],
    ['a field without a name', 'HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc'],
    ['a list of lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab'],
    ['a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n'],
    ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab'],
    ['a length in hex', 'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab'],
    ['an empty length', 'HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n'],
    ['a length beyond all measure', 'HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n'],
    ['an unknown transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['chunked twice', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a head that never ends', `HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(20_000)}`],
  ]

  const shared = sharedProxy()

  test.each(RUBBISH)('%s', (_what, bytes) => expectInvalid(shared, bytes))
})

describe('half an answer is broken off, not completed as if it were whole', () => {
  const BROKEN: readonly (readonly [what: string, begin: string, fail: (backend: RawBackend) => unknown, reason: string])[] = [
    ['chunks and an end in a chunk', CHUNKED, (backend) => end(backend, '9\r\nab'), 'backend_reset'],
    ['chunks and an end before the last line', CHUNKED, (backend) => end(backend, '0\r\n'), 'backend_reset'],
    ['chunks and a reset', CHUNKED, (backend) => reset(backend), 'backend_reset'],
    ['chunks and a size with 0x', CHUNKED, (backend) => say(backend, '0x3\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a negative size', CHUNKED, (backend) => say(backend, '-3\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a size beyond all measure', CHUNKED, (backend) => say(backend, 'fffffffffffffffff\r\n'), 'backend_invalid'],
    ['chunks and a size without end', CHUNKED, (backend) => say(backend, '0'.repeat(10_000)), 'backend_invalid'],
    ['chunks and an empty size', CHUNKED, (backend) => say(backend, '\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a bare LF', CHUNKED, (backend) => say(backend, '3\nabc\r\n0\r\n\r\n'), 'backend_invalid'],
    ['chunks and one longer than its size', CHUNKED, (backend) => say(backend, '3\r\nabcd\r\n0\r\n\r\n'), 'backend_invalid'],
    ['a length and an end one byte too early', COUNTED, (backend) => end(backend, 'x'.repeat(95)), 'backend_reset'],
    ['a length and a reset', COUNTED, (backend) => reset(backend), 'backend_reset'],
  ]

  const shared = sharedProxy()

  test.each(BROKEN)('%s', (_what, begin, fail, reason) => expectHalfAnswer(shared, begin, fail, reason))

  test('for HTTP/1.0 clients, to whom an end would look like the whole', async () => {
    for (const begin of [CHUNKED, COUNTED, ENDLESS]) {
      const backend = await RawBackend.saying(begin)
      const edge = await proxying(backend)
      const client = RawClient.connect(edge.port)
      client.send('GET / HTTP/1.0\r\n\r\n')
      await client.sees('half')
      reset(backend)
      await client.closed()
      expect([client.errorCode, client.hasEnded]).toEqual(['ECONNRESET', false])
    }
  })

  test('clients of node:http see an error, not an end', async () => {
    const backend = await RawBackend.saying(CHUNKED)
    const edge = await proxying(backend)
    const response = await fetch(`http://127.0.0.1:${edge.port}/`)
    const reader = response.body!.getReader()
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('half')
    end(backend, '')
    await expect(reader.read()).rejects.toThrow()
  })

  const RESETS = 12

  // Libuv reports some resets as ends, most of those that come right behind the bytes.
  test.each([4, 100_000])('a body of %i bytes that ends with its connection is never whole when that is reset', async (size) => {
    const backend = await RawBackend.start(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(size)}`)
      socket.resetAndDestroy()
    })
    const edge = await proxying(backend)
    for (let i = 0; i < RESETS; i++) {
      const received = await answerBytes(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
      expect(received).not.toContain('\r\n0\r\n\r\n')
      if (received !== '') expect(['backend_reset', undefined]).toContain(valuesOf(readAnswer(received), 'X-Edge-Reason')[0])
    }
    expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(RESETS)
  })

  test('one that was reset after its end is whole', async () => {
    const backend = await RawBackend.start(({ socket }) => {
      socket.end(ENDLESS)
      socket.once('finish', () => socket.resetAndDestroy())
    })
    const edge = await proxying(backend)
    for (let i = 0; i < RESETS; i++) {
      const received = await answerBytes(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
      expect(received.endsWith('4\r\nhalf\r\n0\r\n\r\n')).toBe(true)
    }
    expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(0)
  })

  test('a backend that has ended its side hears at most an empty line', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.end(ENDLESS))
    const edge = await proxying(backend)
    expect((await edge.get('/')).body).toBe('half')
    await until(() => backend.openConnections === 0)
    expect(backend.received).toMatch(/^GET \/ HTTP\/1\.1\r\n.*[^\n]\r\n\r\n(?:\r\n)?$/s)
    expect(await edge.metric('edge_backend_connections')).toBe(0)
  })
})

describe('a failure', () => {
  test('of a HEAD has no body', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` })
    const received = await answerBytes(edge.port, 'HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(received).toMatch(/^HTTP\/1\.1 502 /)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })
})
