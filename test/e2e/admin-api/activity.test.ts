import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { activity, alice, BUNDLE, sampled } from '../../support/admin/sampled.ts'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

describe('GET activity', () => {
  const owner = thisSuite()
  let refusing: Edge
  beforeAll(async () => {
    refusing = await running({ bundle: BUNDLE, env: ADMIN_ENV }, owner)
  })

  test('counts what was decided between two samples, by action, reason and policy', async () => {
    const { edge, sample } = await sampled()
    await edge.decideTimes(6, { uri: '/p', fields: alice })
    await edge.decideTimes(2, { uri: '/q', fields: alice })
    await edge.decideTimes(3, { uri: '/s', fields: alice })
    await edge.decide({ uri: '/none' })
    await edge.post('/v1/decision')
    expect(await sample()).toMatchObject({
      time: '2026-01-15T12:00:02.000Z',
      seconds: 2,
      allowed: 4 + 1 + 3 + 1,
      rejected: 2 + 1,
      would_reject: 2,
      refused: 1,
      reasons: { rejected: { token_bucket_exceeded: 3 }, refused: { missing_original_method: 1 } },
      policies: [
        { policy: 'p', allowed: 4, rejected: 2, would_reject: 0 },
        // A shadow policy lets pass what it covers, also what it would reject.
        { policy: 's', allowed: 3, rejected: 0, would_reject: 2 },
        { policy: 'q', allowed: 1, rejected: 1, would_reject: 0 },
      ],
      latency: { p50_ms: expect.any(Number), p99_ms: expect.any(Number) },
      spending: { tokens: 0, money: 0, rules: [] },
      store: { occupied: 3, evicted: 0 },
      backend: null,
      redis: null,
    })
    expect(await sample()).toMatchObject({ allowed: 0, rejected: 0, reasons: { rejected: {}, refused: {} }, policies: [], latency: null })
  })

  test('returns what came since the last sample that is known, even if the clock was set back, and all after a restart', async () => {
    const { edge, clock, sample } = await sampled()
    const first = await sample()
    const second = await sample()
    const times = async (since: string) =>
      (await activity(edge.adminPort, `?since=${since}`)).samples.map(({ time }: { time: string }) => time)
    expect(await times(first.time)).toEqual([second.time])
    expect(await times(second.time)).toEqual([])
    expect(await times('2020-01-01T00:00:00Z')).toEqual([first.time, second.time])
    clock.setBack(3_600_000)
    const third = await sample()
    expect(third.time < first.time).toBe(true)
    expect(await times(second.time)).toEqual([third.time])
  })

  test('in reverse_proxy it has tokens, money and the backend', async () => {
    const fake = await fakeLlm()
    const rules = [llmRule('tokens', [], { tokens_per_minute: 40_000 })]
    const { edge, sample } = await sampled({ bundle: bundle(1, policy('llm', { rules })), env: proxyEnv(fake) })
    const answer = await ask(edge.port, 'POST', CHAT, [], JSON.stringify({ messages: HELLO, max_tokens: 10 }))
    const used = JSON.parse(answer.body).usage.total_tokens
    expect(used).toBeGreaterThan(HELLO_TOKENS)
    await until(async () => (await askAdmin(edge.adminPort, 'GET', 'usage')).json.rules[0].used.since_start > 0)
    expect(await sample()).toMatchObject({
      spending: { tokens: used, money: 0, rules: [{ policy: 'llm', rule: 'tokens', tokens: used, money: 0 }] },
      backend: { in_flight: 0, streams: 0, tunnels: 0, waiting: 0, responses: { '2xx': 1 }, failures: {}, latency: expect.any(Object) },
    })
    fake.close()
    await ask(edge.port, 'POST', CHAT, [], JSON.stringify({ messages: HELLO, max_tokens: 10 }))
    expect(Object.keys((await sample()).backend.failures)).toHaveLength(1)
  })

  test('is empty before the first bundle', async () => {
    const { edge, sample } = await sampled({ bundle: undefined as never })
    expect(await sample()).toMatchObject({ allowed: 0, rejected: 0, refused: 0 })
    expect(await activity(edge.adminPort)).toMatchObject({ policies: 0, busiest: [] })
  })

  test.each([
    ['?since=yesterday', 'since: expected a time such as 2026-01-01T00:00:00Z, got "yesterday"'],
    ['?since=2026-02-31T00:00:00Z', 'since: expected a time such as 2026-01-01T00:00:00Z, got "2026-02-31T00:00:00Z"'],
    ['?range=2h', 'range: expected 15m, 1h, 6h or 24h, got "2h"'],
    ['?range=&since=now', 'range: expected 15m, 1h, 6h or 24h, got ""; since: expected a time such as 2026-01-01T00:00:00Z, got "now"'],
    ['?from=x', 'unknown parameter "from"; expected range, since'],
  ])('refuses %s', async (query, message) => {
    expect(await askAdmin(refusing.adminPort, 'GET', `activity${query}`)).toMatchObject({ status: 400, json: { error: { message } } })
  })
})

describeWithRedis('GET activity with counters in Redis', () => {
  test('has round trips, and what decided', async () => {
    const redis = await runningRedis()
    const { edge, sample } = await sampled({
      env: { EDGE_REDIS_URL: redis.url, EDGE_REDIS_MODE: 'exact' },
      redisDeadlines: new HeldDeadlines(),
    })
    await edge.decideTimes(3, { uri: '/p', fields: alice })
    expect(await sample()).toMatchObject({
      redis: { round_trips: expect.any(Number), latency: expect.any(Object), checks: { redis: 3 }, errors: {}, open_circuits: 0 },
    })
  })
})
