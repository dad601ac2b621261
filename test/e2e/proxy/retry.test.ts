import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, statusesIn } from '../../support/proxy/proxy.ts'
import { afterOneAnswer, ask, OK, requests } from '../../support/proxy/stale-connection.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

const BODILESS = ['GET', 'PUT']
const ONCE = ['POST']

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

  test.each(['PUT'])('%s with a body that is on its way is not', async (method) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end())
    expect(statusesIn(await ask(edge, method, 'body'))).toEqual([502])
    expect(requests(backend)).toEqual(['GET /first', `${method} /`])
  })

  test.each([['half a head', 'HTTP/1.1 200']])('nothing is sent again after %s', async (_what, bytes) => {
    const [edge, backend] = await afterOneAnswer(({ socket }) => socket.end(bytes))
    await ask(edge, 'GET')
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    expect(requests(backend)).toEqual(['GET /first', 'GET /'])
    expect(await edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(1)
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
