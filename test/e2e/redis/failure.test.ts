import { expect, test } from 'vitest'
import { systemClock } from '../../../src/time/clock.ts'
import { bucketRule, bundle, concurrencyRule, policy, windowRule } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { outageSuite, startSuite } from '../../support/redis/outage-suite.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const LIMIT = 4
const DAY_MS = 24 * 60 * 60 * 1000
const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], LIMIT, HARDLY_ANY)] }))

outageSuite('goes away')
startSuite('local')

describeWithRedis('without Redis', () => {
  const shared = redisOfSuite()

  test.each([
    ['window', windowRule('four', [], { limit: LIMIT, period: '1y' })],
    ['request in flight', concurrencyRule('four', [], LIMIT, 3600)],
  ])('no %s counts anew at an instance whose clock differs', async (_, rule) => {
    const redis = shared()
    const clocks = [-400, 400].map((days) => ({ ...systemClock, wallMs: () => systemClock.wallMs() + days * DAY_MS }))
    const rules = bundle(1, policy('p', { rules: [rule] }))
    const edges = await Promise.all(clocks.map((clock) => sharing(redis.url, { bundle: rules, clock })))
    for (const edge of edges) expect((await edge.decide()).status).toBe(200)
    await redis.stop()
    for (const edge of edges) {
      await until(async () => !(await hasRedis(edge)))
      expect(admitted(await Promise.all(Array.from({ length: 2 * LIMIT }, () => edge.decide())))).toBe(LIMIT - 1)
    }
  })

  test('a proxy says so in the body that its clients read, and the backend hears nothing', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const env = { ...proxyEnv(backend.url), EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: FOUR, env })
    expect((await ask(edge.port, 'GET', '/')).status).toBe(200)
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    const { status, headers, body } = await ask(edge.port, 'POST', '/', [], 'a body')
    expect([status, headers['content-type'], headers['x-edge-reason']]).toEqual([503, 'application/json', 'store_unavailable'])
    expect(JSON.parse(body)).toEqual({
      error: { message: expect.any(String), type: 'service_unavailable', code: 'store_unavailable' },
    })
    expect(backend.seen).toHaveLength(1)
  })
})
