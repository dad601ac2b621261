import { describe, expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HELLO } from '../../support/llm/llm-proxy.ts'
import { COMMON_ENDS, HOLD_ENDS, holdEndsSuite } from '../../support/proxy/hold-ends.ts'
import { AN_HOUR, holdsBackend, holdsBundle, openHolds, openTunnel, send, untilLost, wait } from '../../support/proxy/holds.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test('five at a time: the sixth is told to come back in a second, and passes when one of them is done', async () => {
  const backend = await holdsBackend()
  const edge = await proxying(backend, { bundle: holdsBundle(5) })
  const clients = [await wait(edge, backend)]
  for (let i = 1; i < 5; i++) clients.push(await wait(edge, backend))
  const { status, headers, body } = await edge.get('/')
  expect([status, headers]).toMatchObject([
    429,
    {
      'retry-after': '1',
      'x-edge-reason': 'concurrency_exceeded',
      'ratelimit-limit': '5',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
      ratelimit: '"p";r=0;t=1',
    },
  ])
  expect(headers).not.toHaveProperty('x-should-retry')
  expect(JSON.parse(body)).toEqual({
    error: {
      message: 'Too many requests in flight: at most 5 at a time. Retry in 1 s.',
      type: 'rate_limit_error',
      code: 'concurrency_exceeded',
    },
  })
  backend.connections[2]!.socket.write(OK)
  await until(() => clients.some(({ received }) => received.endsWith('ok')))
  const passed = await edge.get('/')
  expect([passed.status, passed.headers['ratelimit-remaining'], passed.headers['ratelimit-reset']]).toEqual([200, '0', '1'])
  expect(await openHolds(edge)).toBe(4)
})

test('each caller has a limit of its own', async () => {
  const backend = await holdsBackend()
  const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [concurrencyRule('r', ['header:x-team'], 1)] })) })
  await wait(edge, backend, 'X-Team: a\r\n')
  expect((await edge.get('/', [['X-Team', 'a']])).status).toBe(429)
  expect((await edge.get('/', [['X-Team', 'b']])).status).toBe(200)
  expect((await edge.get('/')).status).toBe(200)
})

test('requests in flight may be counted for each model, which the body names', async () => {
  const backend = await holdsBackend()
  const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [concurrencyRule('r', ['llm:model'], 1, AN_HOUR)] })) })
  const request = (path: string, model: string): string => {
    const body = JSON.stringify({ model, messages: HELLO })
    return `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
  const status = async (model: string): Promise<number> => {
    const client = send(edge, request('/', model))
    return (await client.next()).status
  }
  const waiting = send(edge, request('/wait', 'large'))
  await until(() => backend.heads === 1)
  expect([await status('large'), await status('small')]).toEqual([429, 200])
  waiting.socket.destroy()
  await untilLost(backend, '/wait')
  await until(async () => (await status('large')) === 200)
})

// One of each kind: a response, a failure, a client that goes, a tunnel, an LLM stream, a reject. The others: concurrency-ends.slow.test.ts
holdEndsSuite(HOLD_ENDS.filter(([end]) => COMMON_ENDS.includes(end)))

describe('in time that the test holds', () => {
  const time = heldTime()

  test('what is under way longer than hold_seconds keeps its hold, and what is not under way any more loses it', async () => {
    const backend = await holdsBackend()
    const edge = await proxying(backend, { bundle: holdsBundle(3, 1) })
    const streaming = send(edge, 'GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
    await streaming.sees('one')
    await openTunnel(edge)
    await wait(edge, backend)
    // Each is renewed when a quarter of a second is over.
    for (let passedMs = 0; passedMs < 3000; passedMs += 200) {
      time.pass(200)
      expect((await edge.get('/')).status).toBe(429)
    }
    expect(await edge.metric('edge_hold_renewals_total{result="renewed"}')).toBeGreaterThanOrEqual(27)
    streaming.socket.destroy()
    // Whether it is gone, or has only half-closed, is found out in time.
    await until(async () => {
      time.pass(100)
      return (await edge.get('/')).status === 200
    })
    expect(await openHolds(edge)).toBe(2)
  })

  test('a new bundle keeps the holds of requests in flight, also of a rule that is gone for a while', async () => {
    const backend = await holdsBackend()
    const edge = await proxying(backend, { bundle: holdsBundle(2, 2) })
    const [first] = [await wait(edge, backend), await wait(edge, backend)]
    expect(await offering(edge, bundle(2))).toMatchObject({ event: 'bundle_applied' })
    expect((await edge.get('/')).status).toBe(200)
    const renewals = 'edge_hold_renewals_total{result="renewed"}'
    await until(async () => {
      time.pass(400)
      return (await edge.metric(renewals)) >= 10
    })
    const again = { ...holdsBundle(2, 2), bundle_version: 3 }
    expect(await offering(edge, again)).toMatchObject({ event: 'bundle_applied' })
    expect((await edge.get('/')).status).toBe(429)
    expect(await offering(edge, { ...holdsBundle(3, 2), bundle_version: 4 })).toMatchObject({ event: 'bundle_applied' })
    expect((await edge.get('/')).headers).toMatchObject({ 'ratelimit-limit': '3', 'ratelimit-remaining': '0' })
    first!.socket.destroy()
    await until(async () => {
      time.pass(100)
      return (await edge.get('/')).headers['ratelimit-remaining'] === '1'
    })
  })

  /** Publishes while time passes, in steps: files are looked at by timers. */
  async function offering(edge: Edge, text: object): Promise<unknown> {
    let result: unknown
    void offer(edge, text).then((event) => {
      result = event
    })
    await until(() => {
      time.pass(20)
      return result !== undefined
    })
    return result
  }
})

test('in shadow mode it changes no response, counts what it would reject, and its holds are released as well', async () => {
  const backend = await holdsBackend()
  const edge = await proxying(backend, {
    bundle: bundle(1, policy('p', { mode: 'shadow', rules: [concurrencyRule('one', [], 1, AN_HOUR)] })),
  })
  const client = await wait(edge, backend)
  expect(await edge.get('/')).toMatchObject({ status: 200, body: 'ok' })
  expect((await edge.get('/')).headers).not.toHaveProperty('ratelimit')
  expect(await edge.metric('edge_would_reject_total{policy="p",rule="one",reason="concurrency_exceeded"}')).toBe(2)
  client.socket.destroy()
  await untilLost(backend, '/wait')
  await until(async () => (await openHolds(edge)) === 0)
  await edge.get('/')
  expect(await edge.metric('edge_would_reject_total{policy="p",rule="one",reason="concurrency_exceeded"}')).toBe(2)
})

test('a shutdown releases the holds of what it cuts', async () => {
  const backend = await holdsBackend()
  const edge = await proxying(backend, { bundle: holdsBundle(3) })
  const clients = [await wait(edge, backend), await openTunnel(edge)]
  await edge.stop()
  await until(() => clients.every(({ isClosed }) => isClosed) && backend.openConnections === 0)
})
