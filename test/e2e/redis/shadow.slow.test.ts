import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { answersBy, HARDLY_ANY, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const SHADOW = policy('shadow', { mode: 'shadow', rules: [bucketRule('two', [], 2, HARDLY_ANY)] })
const CLOSED = { EDGE_REDIS_FAILURE_MODE: 'closed' }
const WOULD_REJECT = 'edge_would_reject_total{policy="shadow",rule="two",reason="token_bucket_exceeded"}'

describeWithRedis('a shadow policy on Redis', () => {
  const shared = redisOfSuite()

  test.each(['local', 'open', 'closed'])('alone, while Redis is away in mode %s, changes no answer', async (mode) => {
    const redis = shared()
    const edge = await sharing(redis.url, { bundle: bundle(1, SHADOW), env: { EDGE_REDIS_FAILURE_MODE: mode } })
    const before = await edge.decide()
    await lose(redis, edge)
    for (let i = 0; i < 4; i++) expect(plain(await edge.decide())).toEqual(plain(before))
    expect(before.status).toBe(200)
    expect(await edge.metric(WOULD_REJECT)).toBe(mode === 'local' ? 3 : 0)
  })

  test('with a token budget, in a proxy, while Redis is away in mode closed: all passes', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const rules = [llmRule('budget', [], { tokens_per_minute: 10, tokens_per_day: 20 })]
    const shadow = policy('shadow', { mode: 'shadow', rules })
    const edge = await sharing(redis.url, { bundle: bundle(1, shadow), env: { ...proxyEnv(backend.url), ...CLOSED } })
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
    expect((await ask(edge.port, 'POST', '/v1/chat/completions', [], body)).status).toBe(200)
    await lose(redis, edge)
    expect((await ask(edge.port, 'POST', '/v1/chat/completions', [], body)).status).toBe(200)
    expect(backend.seen).toHaveLength(2)
  })
})

describeWithRedis('a proxy that must read the body before it can decide', () => {
  const shared = redisOfSuite()
  const rules = [bucketRule('two', [], 2, HARDLY_ANY), llmRule('budget', [], { tokens_per_day: 1_000_000, max_completion_tokens: 5 })]
  const BUNDLE = bundle(1, policy('p', { rules }))

  test('lets the body come while Redis is away in mode closed, and then says 503', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: { ...proxyEnv(backend.url), ...CLOSED } })
    await lose(redis, edge)
    const answer = await ask(edge.port, 'POST', '/v1/chat/completions', [], '{}')
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([503, 'store_unavailable'])
    expect(JSON.parse(answer.body).error.code).toBe('store_unavailable')
    expect(backend.seen).toEqual([])
    await redis.start()
    await until(() => hasRedis(edge))
    expect((await ask(edge.port, 'POST', '/v1/chat/completions', [], '{}')).status).toBe(200)
    expect((await answersBy(edge)).redis).toBeGreaterThan(0)
  })
})

async function lose(redis: RedisServer, edge: Edge): Promise<void> {
  await redis.stop()
  await until(async () => !(await hasRedis(edge)))
}

/** All of an answer but its date. */
function plain({ status, headers, body }: Awaited<ReturnType<Edge['decide']>>) {
  return { status, headers: { ...headers, date: '' }, body }
}
