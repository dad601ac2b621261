import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { POLICIES } from '../../support/admin/counted-policies.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { metricsOf } from '../../support/service/metrics.ts'

describeWithRedis('counters in Redis', () => {
  test('are read there without being counted, and unavailable is said where Redis is', async () => {
    const redis = await runningRedis()
    const env = { ...ADMIN_ENV, EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: bundle(1, ...POLICIES), env })
    await edge.decide({ uri: '/api', fields: [['X-Held', 'x']] })
    const before = (await metricsOf(edge.adminPort)).sum('edge_redis_answers_total')
    const path = 'counters?policy=api&rule=everybody'
    expect(await askAdmin(edge.adminPort, 'GET', path)).toMatchObject({ status: 200, json: { counters: [{ remaining: 999 }] } })
    const explanation = await askAdmin(edge.adminPort, 'POST', 'explain', { body: { method: 'GET', uri: '/api' } })
    expect(explanation.json).toMatchObject({ action: 'allow', headers: { 'RateLimit-Remaining': '998' } })
    expect((await metricsOf(edge.adminPort)).sum('edge_redis_answers_total')).toBe(before)
    await redis.stop()
    expect(await askAdmin(edge.adminPort, 'GET', path)).toMatchObject({ status: 503, json: { error: { code: 'store_unavailable' } } })
    const refused = await askAdmin(edge.adminPort, 'POST', 'explain', { body: { method: 'GET', uri: '/api' } })
    expect(refused).toMatchObject({ status: 200, json: { action: 'refuse', status: 503, reason: 'store_unavailable' } })
    expect(refused.json.policies[0].rules[6]).toMatchObject({ name: 'everybody', applied: true, counters: [] })
    const reset = { policy: 'api', rule: 'everybody', values: {}, reason: 'test' }
    expect(await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: reset })).toMatchObject({
      status: 503,
      json: { error: { code: 'store_unavailable' } },
    })
  })

  test.each(['local', 'open'])('are those of this instance, or not known, where %s decides without Redis', async (mode) => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: bundle(1, ...POLICIES), env: { ...ADMIN_ENV, EDGE_REDIS_FAILURE_MODE: mode } })
    await edge.decide({ uri: '/api' })
    await redis.stop()
    const counters = await askAdmin(edge.adminPort, 'GET', 'counters?policy=api&rule=everybody')
    if (mode === 'local') expect(counters).toMatchObject({ status: 200, json: { counters: [{ remaining: 999 }] } })
    else expect(counters).toMatchObject({ status: 503, json: { error: { code: 'store_unavailable' } } })
    const explanation = await askAdmin(edge.adminPort, 'POST', 'explain', { body: { method: 'GET', uri: '/api' } })
    expect(explanation.json).toMatchObject({ action: 'allow', status: 200 })
  })

  test.each(['exact', 'leased'])('are explained as they are decided, %s, and nothing is leased for it', async (mode) => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: bundle(1, ...POLICIES), env: { ...ADMIN_ENV, EDGE_REDIS_MODE: mode } })
    const request = { uri: '/api', fields: [['X-Slow', 'a']] } as const
    const body = { method: 'GET', uri: '/api', headers: { 'x-slow': 'a' } }
    // What was leased for the decision before may be given back at any time.
    const leased = async (): Promise<number> => (await metricsOf(edge.adminPort)).sum('edge_redis_leased_tokens_total{what="leased"}')
    for (let i = 0; i < 5; i++) {
      const before = await leased()
      const first = (await askAdmin(edge.adminPort, 'POST', 'explain', { body })).json
      expect((await askAdmin(edge.adminPort, 'POST', 'explain', { body })).json.status).toBe(first.status)
      expect(await leased()).toBe(before)
      const { status, headers } = await edge.decide(request)
      expect([status, headers['x-edge-reason']]).toEqual([first.status, first.headers['X-Edge-Reason']])
    }
  })
})
