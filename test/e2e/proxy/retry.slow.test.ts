import { describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, statusesIn } from '../../support/proxy/proxy.ts'
import { afterOneAnswer, ask, OK, requests } from '../../support/proxy/stale-connection.ts'
import { until } from '../../support/until.ts'

const BODILESS = ['HEAD', 'OPTIONS', 'TRACE', 'DELETE']
const ONCE = ['PATCH', 'LOCK']

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

  test.each(['POST', 'DELETE'])('%s with a body that is on its way is not', async (method) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end())
    expect(statusesIn(await ask(edge, method, 'body'))).toEqual([502])
    expect(requests(backend)).toEqual(['GET /first', `${method} /`])
  })

  test.each([
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
})

describe('a new connection', () => {
  test.each([...BODILESS, ...ONCE])('%s that got there is not sent again', async (method) => {
    const backend = await RawBackend.start(({ socket }) => socket.end())
    const edge = await proxying(backend)
    expect(statusesIn(await ask(edge, method))).toEqual([502])
    expect(requests(backend)).toEqual([`${method} /`])
  })
})
