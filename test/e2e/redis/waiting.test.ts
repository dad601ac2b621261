import { expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, type RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import { get, newBackend, wait } from '../../support/redis/held-requests.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'

/** Longer than any test. */
const WAITS = { wait_seconds: 60 }
const ONE_IN_FLIGHT = bundle(1, policy('p', { rules: [{ ...concurrencyRule('r', [], 1, 3600), ...WAITS }] }))
const WAITED = (outcome: string): string => `edge_waits_total{policy="p",rule="r",outcome="${outcome}"}`

describeWithRedis('requests that wait in proxies that share a Redis', () => {
  const shared = redisOfSuite()
  const proxy = (backend: RawBackend | HttpBackend, rules: object, env = {}, url = shared().url): Promise<Edge> =>
    sharing(url, { bundle: rules, env: { ...proxyEnv(backend.url), ...env } })
  const areWaiting = (edge: Edge, count: number): Promise<void> => until(async () => (await edge.metric('edge_waiting_requests')) === count)

  test.each(['exact', 'leased'])('pass when a request at another one ends, and are one decision (%s)', async (mode) => {
    const backend = await newBackend()
    const [one, two] = [await proxy(backend, ONE_IN_FLIGHT), await proxy(backend, ONE_IN_FLIGHT, { EDGE_REDIS_MODE: mode })]
    const held = await wait(one, backend)
    const answer = get(two)
    await areWaiting(two, 1)
    held.socket.destroy()
    expect((await answer).status).toBe(200)
    expect([await two.metric(WAITED('allowed')), await two.metric('edge_questions_total{door="proxy",outcome="allow"}')]).toEqual([1, 1])
    expect(await two.metric('edge_questions_total{door="proxy",outcome="reject"}')).toBe(0)
    await until(async () => (await one.metric('edge_proxy_open_holds')) === 0)
  })

  test.each(['exact', 'leased'])('all pass in the end where the tokens of a bucket come fast enough (%s)', async (mode) => {
    const backend = await HttpBackend.start()
    const rules = bundle(1, policy('p', { rules: [{ ...bucketRule('r', [], 1, 5), ...WAITS }] }))
    const both = await Promise.all([0, 1].map(() => proxy(backend, rules, { EDGE_REDIS_MODE: mode })))
    const answers = await Promise.all([...both, ...both, ...both, ...both].map(get))
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect(backend.seen.length).toBe(8)
    for (const each of both) expect(await each.metric('edge_waiting_requests')).toBe(0)
  })

  test('take nothing if the client leaves while Redis is asked once more', async () => {
    const backend = await newBackend()
    const gate = await gateTo(shared().port)
    const [one, two] = [await proxy(backend, ONE_IN_FLIGHT), await proxy(backend, ONE_IN_FLIGHT, {}, `redis://${gate.address}`)]
    const held = await wait(one, backend)
    const leaver = RawClient.connect(two.port)
    leaver.send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
    await areWaiting(two, 1)
    // The first in line is decided every 50 ms, so its next question is on its way soon, and finds the place free.
    gate.hold()
    held.socket.destroy()
    await until(async () => (await one.metric('edge_proxy_open_holds')) === 0)
    leaver.socket.resetAndDestroy()
    // All that is left is the connection on which this is asked.
    await until(async () => (await metricsOf(two.port)).connections.join() === '1')
    gate.release()
    await areWaiting(two, 0)
    await until(async () => (await get(one)).status === 200)
    await until(async () => (await two.metric('edge_proxy_open_holds')) === 0)
    expect(backend.received.match(/GET \/wait /g)).toHaveLength(1)
  })
})
