import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawBackend, type RawConnection } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

const BODILESS = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']
const ONCE = ['POST', 'PATCH', 'LOCK']

describe('a connection that was used before and is closed when the next request comes', () => {
  test.each(BODILESS.flatMap((method) => [[method, 'end'] as const, [method, 'resetAndDestroy'] as const]))(
    '%s is sent again when it %ss without a word',
    async (method, how) => {
      const [edge, backend] = await afterOneAnswer(({ socket }) => socket[how]())
      expect(statusesIn(await ask(edge, method))).toEqual([200])
      expect(requests(backend)).toEqual(['GET /first', `${method} /`, `${method} /`])
      expect(await edge.metric('edge_backend_retries_total{reason="backend_reset"}')).toBe(1)
      expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(0)
    },
  )

  test.each(ONCE)('%s is not: 502, and the backend has seen it once', async (method) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end())
    expect(statusesIn(await ask(edge, method))).toEqual([502])
    expect(statusesIn(await ask(edge, 'GET', '', '/last'))).toEqual([200])
    expect(requests(backend)).toEqual(['GET /first', `${method} /`, 'GET /last'])
    expect(await edge.metric('edge_backend_retries_total{reason="backend_reset"}')).toBe(0)
  })

  test.each(['POST', 'PUT', 'DELETE'])('%s with a body that is on its way is not', async (method) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end())
    expect(statusesIn(await ask(edge, method, 'body'))).toEqual([502])
    expect(requests(backend)).toEqual(['GET /first', `${method} /`])
  })

  test.each([
    ['half a head', 'HTTP/1.1 200'],
    ['an interim answer', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['a head', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'],
  ])('nothing is sent again after %s', async (_what, bytes) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end(bytes))
    await ask(edge, 'GET')
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    expect(requests(backend)).toEqual(['GET /first', 'GET /'])
    expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(1)
  })

  test('rubbish is no reason to ask again', async () => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.write('rubbish\r\n\r\n'))
    expect(statusesIn(await ask(edge, 'GET'))).toEqual([502])
    expect(requests(backend)).toEqual(['GET /first', 'GET /'])
  })

  test('the second try is the last', async () => {
    const backend = await RawBackend.start((connection, index) => {
      if (index === 0) connection.socket.write(OK)
      else connection.socket.end()
    })
    const edge = await proxying(backend)
    await ask(edge, 'GET', '', '/first')
    const received = await ask(edge, 'GET')
    expect([statusesIn(received), received.includes('backend_reset')]).toEqual([[502], true])
    expect(requests(backend)).toEqual(['GET /first', 'GET /', 'GET /'])
  })

  test('one that is seen to close before costs nobody a try', async () => {
    const backend = await RawBackend.saying(OK)
    const edge = await proxying(backend)
    await ask(edge, 'GET', '', '/first')
    backend.connections[0]!.socket.end()
    await until(async () => (await edge.metric('edge_backend_connections')) === 0)
    expect(statusesIn(await ask(edge, 'POST', 'body'))).toEqual([200])
    expect(backend.connections.map(({ heads }) => heads)).toEqual([1, 1])
  })

  test('several of them at rest: the second try has a connection of its own', async () => {
    const backend = await RawBackend.start(({ socket }, index) => {
      // The first three wait for one another, so that there are three connections; then all are stale.
      if (index < 3) {
        if (index === 2) for (const { socket: each } of backend.connections) each.write(OK)
      } else if (index === 3) socket.end()
      else socket.write(OK)
    })
    const edge = await proxying(backend)
    await Promise.all([1, 2, 3].map((n) => ask(edge, 'GET', '', `/${n}`)))
    expect(backend.connections).toHaveLength(3)
    expect(statusesIn(await ask(edge, 'GET'))).toEqual([200])
    expect(backend.connections).toHaveLength(4)
    expect(backend.connections[3]!.heads).toBe(1)
  })

  test('a request that is sent twice is charged once', async () => {
    const backend = await RawBackend.start((connection, index) => {
      if (index === 1) connection.socket.end()
      else connection.socket.write(OK)
    })
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    expect(await ask(edge, 'GET')).toContain('RateLimit-Remaining: 2\r\n')
    expect(await ask(edge, 'GET')).toContain('RateLimit-Remaining: 1\r\n')
    expect(backend.heads).toBe(3)
  })
})

describe('a new connection', () => {
  test.each([...BODILESS, ...ONCE])('%s that got there is not sent again', async (method) => {
    const backend = await RawBackend.start(({ socket }) => socket.end())
    const edge = await proxying(backend)
    expect(statusesIn(await ask(edge, method))).toEqual([502])
    expect(requests(backend)).toEqual([`${method} /`])
  })

  test('that could not be made is tried once more, for no byte was sent: any method, any body', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` })
    expect(statusesIn(await ask(edge, 'POST', 'body'))).toEqual([502])
    expect(statusesIn(await ask(edge, 'GET'))).toEqual([502])
    expect(await edge.metric('edge_backend_retries_total{reason="backend_refused"}')).toBe(2)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_refused"}')).toBe(2)
  })
})

/** A proxy whose one connection to the backend has served a request. What comes next gets this, and what comes then is answered. */
async function afterOneAnswer(next: (connection: RawConnection) => unknown): Promise<[Edge, RawBackend]> {
  const backend = await RawBackend.start((connection, index) => {
    if (index === 1) next(connection)
    else connection.socket.write(OK)
  })
  const edge = await proxying(backend)
  expect(statusesIn(await ask(edge, 'GET', '', '/first'))).toEqual([200])
  expect(backend.openConnections).toBe(1)
  return [edge, backend]
}

function ask(edge: Edge, method: string, body = '', path = '/'): Promise<string> {
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`
  return answerBytes(edge.port, `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${length}\r\n${body}`)
}

/** The request lines that came, in order. */
function requests(backend: RawBackend): string[] {
  return [...backend.received.matchAll(/^([A-Z]+ \S+) HTTP\/1\.1\r$/gm)].map(([, line]) => line!)
}
