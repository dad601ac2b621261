import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
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
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

describe('a backend that does not answer', () => {
  test('refuses the connection: 502 backend_refused', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` })
    await expectFailure(edge, GET, 502, 'backend_refused')
    await expectFailure(edge, POST, 502, 'backend_refused')
  })

  test.each([
    ['closes at once', (backend: RawBackend) => backend.connections.at(-1)!.socket.end()],
    ['closes in the middle of its head', (backend: RawBackend) => backend.connections.at(-1)!.socket.end('HTTP/1.1 200 OK\r\nContent-')],
  ])('%s: 502 backend_reset', async (_what, fail) => {
    const backend: RawBackend = await RawBackend.start(() => fail(backend))
    const edge = await proxying(backend)
    await expectFailure(edge, GET, 502, 'backend_reset')
    await expectFailure(edge, POST, 502, 'backend_reset')
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
    ['NUL in the status text', 'HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n'],
    ['a length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a head that is too large', `HTTP/1.1 200 OK\r\nX-A: ${'x'.repeat(70_000)}\r\n\r\n`],
  ]

  const shared = sharedProxy()

  test.each(RUBBISH)('%s', (_what, bytes) => expectInvalid(shared, bytes))
})

describe('half an answer is broken off, not completed as if it were whole', () => {
  const BROKEN: readonly (readonly [what: string, begin: string, fail: (backend: RawBackend) => unknown, reason: string])[] = [
    ['chunks and an end', CHUNKED, (backend) => end(backend, ''), 'backend_reset'],
    ['chunks and a size that is none', CHUNKED, (backend) => say(backend, 'zz\r\nabc\r\n'), 'backend_invalid'],
    ['a length and an end', COUNTED, (backend) => end(backend, ''), 'backend_reset'],
    ['no length and a reset', ENDLESS, (backend) => reset(backend), 'backend_reset'],
  ]

  const shared = sharedProxy()

  test.each(BROKEN)('%s', (_what, begin, fail, reason) => expectHalfAnswer(shared, begin, fail, reason))

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
    const lines = await untilLogged(edge, 'backend_failed', 2)
    expect(lines).toMatchObject([
      { reason: 'backend_refused', unlogged: 0 },
      { reason: 'backend_refused', unlogged: 4 },
    ])
    expect(JSON.stringify(lines)).not.toContain('secret')
    expect(await edge.metric('edge_backend_failures_total{reason="backend_refused"}')).toBe(6)
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
