import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, type RawAnswer, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'

describe('a backend that does not answer', () => {
  test('refuses the connection: 502 backend_refused', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` })
    await expectFailure(edge, GET, 502, 'backend_refused')
    await expectFailure(edge, POST, 502, 'backend_refused')
  })

  test('has no address: 502 backend_refused', async () => {
    const edge = await proxying({ url: 'http://nowhere.invalid:1' })
    await expectFailure(edge, GET, 502, 'backend_refused')
  })

  test.each([
    ['closes at once', (backend: RawBackend) => backend.connections.at(-1)!.socket.end()],
    ['resets at once', (backend: RawBackend) => backend.connections.at(-1)!.socket.resetAndDestroy()],
    ['closes in the middle of its head', (backend: RawBackend) => backend.connections.at(-1)!.socket.end('HTTP/1.1 200 OK\r\nContent-')],
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

  test('answers before the upload is over and closes: the answer counts', async () => {
    const backend = await RawBackend.start(({ socket }) =>
      socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'),
    )
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nfirst')
    expect(await client.next()).toMatchObject({ status: 403, body: 'no' })
  })
})

describe('a backend that sends rubbish: 502 backend_invalid', () => {
  const RUBBISH: readonly (readonly [what: string, bytes: string])[] = [
    ['prose', 'hello, who is there?\r\n\r\n'],
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
    ['NUL in the status text', 'HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n'],
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
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n'],
    ['a name beyond ASCII', 'HTTP/1.1 200 OK\r\nX-\xe9: b\r\nContent-Length: 0\r\n\r\n'],
    ['a field without a colon', 'HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n'],
    ['a field without a name', 'HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n'],
    ['a length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
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
    ['a head that is too large', `HTTP/1.1 200 OK\r\nX-A: ${'x'.repeat(70_000)}\r\n\r\n`],
    ['a head that never ends', `HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(20_000)}`],
  ]

  const shared = sharedProxy()

  test.each(RUBBISH)('%s', async (_what, bytes) => {
    const { backend, edge } = shared
    const heads = backend.heads
    backend.script = ({ socket }) => void socket.write(Buffer.from(bytes, 'latin1'))
    await expectFailure(edge, GET, 502, 'backend_invalid')
    await until(() => backend.openConnections === 0)
    expect(backend.heads).toBe(heads + 1)
  })
})

describe('half an answer is broken off, not completed as if it were whole', () => {
  const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'
  const COUNTED = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'
  const ENDLESS = 'HTTP/1.1 200 OK\r\n\r\nhalf'

  const BROKEN: readonly (readonly [what: string, begin: string, fail: (backend: RawBackend) => unknown, reason: string])[] = [
    ['chunks and an end', CHUNKED, (backend) => end(backend, ''), 'backend_reset'],
    ['chunks and an end in a chunk', CHUNKED, (backend) => end(backend, '9\r\nab'), 'backend_reset'],
    ['chunks and an end before the last line', CHUNKED, (backend) => end(backend, '0\r\n'), 'backend_reset'],
    ['chunks and a reset', CHUNKED, (backend) => reset(backend), 'backend_reset'],
    ['chunks and a size that is none', CHUNKED, (backend) => say(backend, 'zz\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a size with 0x', CHUNKED, (backend) => say(backend, '0x3\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a negative size', CHUNKED, (backend) => say(backend, '-3\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a size beyond all measure', CHUNKED, (backend) => say(backend, 'fffffffffffffffff\r\n'), 'backend_invalid'],
    ['chunks and a size without end', CHUNKED, (backend) => say(backend, '0'.repeat(10_000)), 'backend_invalid'],
    ['chunks and an empty size', CHUNKED, (backend) => say(backend, '\r\nabc\r\n'), 'backend_invalid'],
    ['chunks and a bare LF', CHUNKED, (backend) => say(backend, '3\nabc\r\n0\r\n\r\n'), 'backend_invalid'],
    ['chunks and one longer than its size', CHUNKED, (backend) => say(backend, '3\r\nabcd\r\n0\r\n\r\n'), 'backend_invalid'],
    ['a length and an end', COUNTED, (backend) => end(backend, ''), 'backend_reset'],
    ['a length and an end one byte too early', COUNTED, (backend) => end(backend, 'x'.repeat(95)), 'backend_reset'],
    ['a length and a reset', COUNTED, (backend) => reset(backend), 'backend_reset'],
    ['no length and a reset', ENDLESS, (backend) => reset(backend), 'backend_reset'],
  ]

  const shared = sharedProxy()

  test.each(BROKEN)('%s', async (_what, begin, fail, reason) => {
    const { backend, edge } = shared
    const failures = await edge.metric(`edge_backend_failures_total{reason="${reason}"}`)
    backend.script = ({ socket }) => void socket.write(begin)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('half')
    fail(backend)
    const received = await client.closed()
    expect([client.errorCode, client.hasEnded]).toEqual(['ECONNRESET', false])
    expect(received).not.toContain('\r\n0\r\n')
    await until(() => backend.openConnections === 0)
    expect(await edge.metric(`edge_backend_failures_total{reason="${reason}"}`)).toBe(failures + 1)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect((await edge.get('/livez')).body).toBe('ok')
  })

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

  test('a body that ends with its connection is whole when that ends in peace', async () => {
    const backend = await RawBackend.saying(ENDLESS)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('half')
    end(backend, ' and half')
    await client.sees('9\r\n and half\r\n0\r\n\r\n')
    expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(0)
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
  test('keeps the decision: its fields are there, the charge stays', async () => {
    const edge = await proxying(
      { url: `http://127.0.0.1:${await serverPort()}` },
      { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 2)] })) },
    )
    expect((await edge.get('/')).headers).toMatchObject({ 'x-edge-reason': 'backend_refused', ratelimit: '"p";r=1;t=1' })
    expect((await edge.get('/')).headers['ratelimit-remaining']).toBe('0')
    expect((await edge.get('/')).status).toBe(429)
  })

  test('is logged without the request, and at most once a second for each reason', async () => {
    const clock = new ManualClock()
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` }, { clock })
    for (let i = 0; i < 5; i++) await edge.get('/secret?token=1', [['Authorization', 'Bearer secret']])
    clock.advance(1000)
    await edge.get('/secret')
    const lines = edge.log.filter(({ event }) => event === 'backend_failed')
    expect(lines).toMatchObject([
      { reason: 'backend_refused', unlogged: 0 },
      { reason: 'backend_refused', unlogged: 4 },
    ])
    expect(JSON.stringify(lines)).not.toContain('secret')
    expect(await edge.metric('edge_backend_failures_total{reason="backend_refused"}')).toBe(6)
  })

  test('of a HEAD has no body', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` })
    const received = await answerBytes(edge.port, 'HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(received).toMatch(/^HTTP\/1\.1 502 /)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })

  test('is over when the backend is back', async () => {
    const port = await serverPort()
    const edge = await proxying({ url: `http://127.0.0.1:${port}` })
    expect((await edge.get('/')).status).toBe(502)
    const backend = await HttpBackend.start(undefined, port)
    expect((await edge.get('/')).status).toBe(200)
    expect(backend.seen).toHaveLength(1)
  })
})

/** One for a table whose rows change nothing but what the backend says. */
function sharedProxy(): { readonly backend: RawBackend; readonly edge: Edge } {
  const suite = thisSuite()
  const shared = {} as { backend: RawBackend; edge: Edge }
  beforeAll(async () => {
    shared.backend = await RawBackend.start(() => {}, undefined, suite)
    shared.edge = await proxying(shared.backend, {}, suite)
  })
  return shared
}

/** Asks twice on one connection: a failure ends no connection that a client keeps. */
async function expectFailure(edge: Edge, request: string, status: number, reason: string): Promise<void> {
  const answer = await askRaw(edge.port, request.replace('Host: a', 'Host: a\r\nConnection: close'))
  expectReason(answer, status, reason)
  expect((await edge.get('/livez')).body).toBe('ok')
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
}

function expectReason(answer: RawAnswer, status: number, reason: string): void {
  expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Content-Type')]).toEqual([
    status,
    [reason],
    ['application/json'],
  ])
  expect(JSON.parse(answer.body).error).toMatchObject({ type: 'backend_error', code: reason, message: expect.any(String) })
}

function say(backend: RawBackend, bytes: string): void {
  backend.connections.at(-1)!.socket.write(bytes)
}

function end(backend: RawBackend, bytes: string): void {
  backend.connections.at(-1)!.socket.end(bytes)
}

function reset(backend: RawBackend): void {
  backend.connections.at(-1)!.socket.resetAndDestroy()
}
