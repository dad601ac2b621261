import { expect, test } from 'vitest'
import { bucketRule, budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { MoneyProxy, moneyBundle } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

describeWithRedis('a budget of money that two instances share', () => {
  const shared = redisOfSuite()

  test('what one reserves and settles, the other sees to the hundredth', async () => {
    const llm = await scriptedLlm()
    const edges = await twoSharing(shared().url, {
      bundle: moneyBundle(1, { config: { period: '1y' } }),
      env: { ...proxyEnv(llm), EDGE_SHUTDOWN_MS: '0' },
    })
    const [one, other] = edges.map((edge) => new MoneyProxy(edge, new ManualClock(), 0, 0)) as [MoneyProxy, MoneyProxy]
    const answer = one.post(CHAT, { model: 'big', messages: HELLO, max_tokens: 100 })
    const call = await llm.next()
    expect(await other.left()).toBe(100 - (0.09 + 2))
    const usage = { prompt_tokens: 3, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 2 } }
    call.answer(200, { usage })
    expect((await answer).status).toBe(200)
    await until(async () => (await other.left()) === 100 - (0.01 + 0.01 + 0.2))
    expect(await one.left()).toBe(100 - 0.22)
  })

  test('instances with different backends, and one that only decides, share the budget of a team', async () => {
    const [openai, anthropic] = [await scriptedLlm(), await scriptedLlm()]
    const fleet = { bundle: moneyBundle(1, { config: { period: '1y' }, limitKeys: ['header:x-team'] }) }
    const before = async (llm: { readonly port: number }): Promise<MoneyProxy> => {
      const edge = await sharing(shared().url, { ...fleet, env: { ...proxyEnv(llm), EDGE_SHUTDOWN_MS: '0' } })
      return new MoneyProxy(edge, new ManualClock(), 0, 0)
    }
    const [one, other, asked] = [await before(openai), await before(anthropic), await sharing(shared().url, fleet)]
    const search = [['X-Team', 'search']] as const
    const chat = one.post(CHAT, { model: 'big', messages: HELLO, max_tokens: 100 }, search)
    ;(await openai.next()).answer(200, { usage: { prompt_tokens: 3, completion_tokens: 10 } })
    expect((await chat).status).toBe(200)
    await until(async () => (await other.left(search)) === 100 - (0.03 + 0.2))
    const message = other.post('/v1/messages', { model: 'small-1', messages: HELLO, max_tokens: 100 }, search)
    ;(await anthropic.next()).answer(200, { type: 'message', usage: { input_tokens: 10, output_tokens: 5 } })
    expect((await message).status).toBe(200)
    await until(async () => (await one.left(search)) === 100 - (0.03 + 0.2) - (0.01 + 0.01))
    // A gateway reserves 1000 tokens at the price of any model.
    const answer = await asked.decide({ method: 'POST', uri: CHAT, fields: [...search] })
    expect([answer.status, answer.headers['ratelimit-remaining']]).toEqual([200, String(10_000 - 25 - 8_000)])
    expect(await other.left([['X-Team', 'support']])).toBe(100)
  })

  test.each(['exact', 'leased'])('of those that come at once, the others wait for the one that has the money: %s', async (mode) => {
    const llm = await scriptedLlm()
    const edge = await sharing(shared().url, {
      bundle: moneyBundle(1, { budget: 3, config: { period: '1y' } }),
      env: { ...proxyEnv(llm), EDGE_SHUTDOWN_MS: '0', EDGE_REDIS_MODE: mode },
    })
    const proxy = new MoneyProxy(edge, new ManualClock(), 0, 0)
    const answers = Array.from({ length: 10 }, () => proxy.post(CHAT, { model: 'big', messages: HELLO, max_tokens: 100 }))
    const call = await llm.next()
    const rejects = 'edge_decisions_total{action="reject",reason="budget_exceeded",policy="money",route="/"}'
    await until(async () => (await edge.metric(rejects)) === 9)
    call.answer(200, {})
    const waits = (await Promise.all(answers)).map(({ headers }) => headers['retry-after'])
    expect(waits.sort()).toEqual([...Array(9).fill('5'), undefined])
  })

  test.each(['exact', 'leased'])('admits exactly what it holds, beside a bucket, and warns once: %s', async (mode) => {
    const budget = { budget: 1, cost: { header: 'x-cost', default: 0.05 }, period: '1y', warn_at_percent: [50, 100] }
    const rules = [bucketRule('requests', [], 1000, HARDLY_ANY), budgetRule('dollars', [], budget)]
    const edges = await twoSharing(shared().url, { bundle: bundle(1, policy('money', { rules })), env: { EDGE_REDIS_MODE: mode } })
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => edges[i % 2]!.decide()))
    expect(admitted(answers)).toBe(20)
    expect(answers.filter(({ headers }) => headers['x-edge-reason'] === 'budget_exceeded')).toHaveLength(20)
    expect(await warnings(edges, 50)).toBe(1)
    expect(await warnings(edges, 100)).toBe(1)
  })
})

async function warnings(edges: readonly Edge[], percent: number): Promise<number> {
  const name = `edge_budget_warnings_total{policy="money",rule="dollars",percent="${percent}"}`
  const counts = await Promise.all(edges.map((edge) => edge.metric(name)))
  return counts.reduce((sum, count) => sum + count, 0)
}
