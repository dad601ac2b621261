import { expect, test } from 'vitest'
import type { RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import { get, inFlight, newBackend, type Reached, wait } from '../../support/redis/held-requests.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { metric, metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'

const AN_HOUR = 3600

describeWithRedis('requests in flight in proxies that share a Redis', () => {
  const shared = redisOfSuite()
  const proxy = (backend: RawBackend, rules: object, env = {}, url = shared().url): Promise<Reached> =>
    sharing(url, { bundle: rules, env: { ...proxyEnv(backend.url), ...env } })

  test('are one number, and one that ends at either makes room at both', async () => {
    const [backend, rules] = [await newBackend(), inFlight(5, AN_HOUR)]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules, { EDGE_REDIS_MODE: 'leased' })]
    const clients: RawClient[] = []
    for (const each of [one, two, one, two, one]) clients.push(await wait(each, backend))
    for (const each of [one, two]) {
      expect(await get(each)).toMatchObject({ status: 429, headers: { 'x-edge-reason': 'concurrency_exceeded', 'retry-after': '1' } })
    }
    clients[1]!.socket.destroy()
    await until(async () => (await get(one)).status === 200)
    clients.push(await wait(one, backend))
    expect((await get(two)).status).toBe(429)
    for (const client of clients) client.socket.destroy()
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '4')
  })

  test('whose client goes while Redis is asked are released when it has replied', async () => {
    const [backend, rules] = [await newBackend(), inFlight(2, AN_HOUR)]
    const gate = await gateTo(shared().port)
    const [one, two] = [await proxy(backend, rules, {}, `redis://${gate.address}`), await proxy(backend, rules)]
    await until(async () => (await get(one)).status === 200)
    gate.hold('answers')
    const client = RawClient.connect(one.port)
    client.send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '0')
    client.socket.resetAndDestroy()
    // All that is left is the connection on which this is asked.
    await until(async () => (await metricsOf(one.port)).connections.join() === '1')
    gate.release()
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '1')
    expect(backend.received).not.toContain('/wait')
    expect(await metric(one.port, 'edge_proxy_open_holds')).toBe(0)
  })

  test('of a shadow policy change no response, and are freed as well', async () => {
    const [backend, rules] = [await newBackend(), inFlight(1, AN_HOUR, 'shadow')]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules)]
    const client = await wait(one, backend)
    expect((await get(two)).status).toBe(200)
    const wouldReject = async () => await metric(two.port, `edge_would_reject_total{policy="p",rule="r",reason="concurrency_exceeded"}`)
    expect(await wouldReject()).toBe(1)
    client.socket.destroy()
    await until(async () => {
      const before = await wouldReject()
      await get(two)
      return (await wouldReject()) === before
    })
  })
})
