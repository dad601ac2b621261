import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY, hasRedis, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { countersIn, storedBucket } from '../../support/redis/stored-counters.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const SHADOW = policy('shadow', { mode: 'shadow', rules: [bucketRule('two', [], 2, HARDLY_ANY)] })
const ENFORCED = policy('enforced', { rules: [bucketRule('ten', [], 10, HARDLY_ANY)] })
const CLOSED = { EDGE_REDIS_FAILURE_MODE: 'closed' }
const WOULD_REJECT = 'edge_would_reject_total{policy="shadow",rule="two",reason="token_bucket_exceeded"}'

describeWithRedis('a shadow policy on Redis', () => {
  const shared = redisOfSuite()

  test('counts what the fleet would reject, and changes no answer', async () => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: bundle(1, SHADOW, ENFORCED) })
    const answers = [await edges[0].decide(), await edges[1].decide(), await edges[0].decide(), await edges[1].decide()]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(answers.map(remaining)).toEqual([9, 8, 7, 6])
    expect([await edges[0].metric(WOULD_REJECT), await edges[1].metric(WOULD_REJECT)]).toEqual([1, 1])
  })

  test('beside one that enforces, while Redis is away in mode closed: the one that enforces decides', async () => {
    const redis = shared()
    const edge = await sharing(redis.url, { bundle: bundle(1, SHADOW, ENFORCED), env: CLOSED })
    await lose(redis, edge)
    expect(await edge.decideTimes(3)).toEqual([503, 503, 503])
    expect(await edge.metric(WOULD_REJECT)).toBe(0)
  })
})

describeWithRedis('a proxy that must read the body before it can decide', () => {
  const shared = redisOfSuite()
  const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n'
  const rules = [bucketRule('two', [], 2, HARDLY_ANY), llmRule('budget', [], { tokens_per_day: 1_000_000, max_completion_tokens: 5 })]
  const BUNDLE = bundle(1, policy('p', { rules }))

  test('rejects by the head what the fleet has no tokens for, and the look costs nothing', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const edges = await twoSharing(redis.url, { bundle: BUNDLE, env: proxyEnv(backend.url) })
    const statuses: number[] = []
    for (const edge of edges) {
      const client = RawClient.connect(edge.port)
      client.send(HEAD)
      await client.sees('HTTP/1.1 100')
      client.send('{}')
      await client.sees('hello')
      statuses.push(200)
    }
    // Both tokens are gone, one by each instance, and the two looks before took none.
    const client = RawClient.connect(edges[0]!.port)
    client.send(HEAD)
    await client.sees('HTTP/1.1 429')
    expect(client.received).not.toContain('HTTP/1.1 100')
    expect(admitted(statuses)).toBe(backend.seen.length)
    const levels = await Promise.all((await countersIn(redis)).map((key) => levelOf(redis, key)))
    expect(levels.filter((level) => level !== undefined).map(Math.floor)).toEqual([0])
  })
})

async function lose(redis: RedisServer, edge: Edge): Promise<void> {
  await redis.stop()
  await until(async () => !(await hasRedis(edge)))
}

/** Of a bucket; a day is something else. */
async function levelOf(redis: RedisServer, key: string): Promise<number | undefined> {
  return (await redis.command('TYPE', key)) === 'string' ? (await storedBucket(redis, key)).level : undefined
}
