import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { named, routing } from '../../support/proxy/routed.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { linesOf } from '../../support/service/decision-log-file.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

describeWithRedis('requests with a route', () => {
  const shared = redisOfSuite()

  test('whose client leaves while Redis is asked are sent nowhere, and have their line in the decision log', async () => {
    const redis = shared()
    const path = join(await scratchDirectory(), 'decisions.log')
    const a = await named('a')
    const policies = [policy('p', { rules: [bucketRule('r', ['header:x-key'], 9)] })]
    const env = { EDGE_DECISION_LOG: path, EDGE_REDIS_URL: redis.url }
    const edge = await routing({ a }, [{ backends: [{ name: 'a' }] }], { policies, env, redisDeadlines: new HeldDeadlines() })
    expect((await edge.get('/first', [['X-Key', 'k1']])).status).toBe(200)
    redis.pause()
    const client = RawClient.connect(edge.port)
    client.send('GET /left HTTP/1.1\r\nHost: a\r\nX-Key: k2\r\n\r\n')
    const connections = async (): Promise<number> => Math.max(...(await metricsOf(edge.port)).connections)
    await until(async () => (await connections()) > 1)
    client.socket.resetAndDestroy()
    await until(async () => (await connections()) === 1)
    redis.resume()
    await until(async () => (await linesOf(path)).length === 2)
    expect((await linesOf(path)).map(({ uri, backend, attempts }) => [uri, backend, attempts])).toEqual([
      ['/first', 'a', undefined],
      ['/left', undefined, undefined],
    ])
    expect(a.seen).toHaveLength(1)
  })
})
