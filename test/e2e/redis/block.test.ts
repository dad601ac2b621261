import { expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'

describeWithRedis('a block', () => {
  test('asks no Redis: it rejects while Redis is down and everything else is refused', async () => {
    const redis = await runningRedis()
    const rules = [bucketRule('all', [], 9), blockRule('acme', { 'header:x-org': 'acme' })]
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env: { EDGE_REDIS_FAILURE_MODE: 'closed' } })
    expect((await edge.decide()).status).toBe(200)
    await redis.stop()
    const [blocked, other] = [await edge.decide({ fields: [['X-Org', 'acme']] }), await edge.decide()]
    expect([blocked.status, blocked.headers['x-edge-reason']]).toEqual([403, 'blocked'])
    expect([other.status, other.headers['x-edge-reason']]).toEqual([503, 'store_unavailable'])
  })
})
