import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { hostsOf, routedBundle } from '../../support/proxy/routed.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { exchange } from '../../support/service/http.ts'
import { expectSumsOf, usageBundle, usageProxy } from '../../support/usage/usage-proxy.ts'

const RED = ['X-Team', 'red'] as const
const BIG = { model: 'big', messages: HELLO, max_tokens: 50 }
const DAY_MS = 86_400_000
const THURSDAY = { start: '2026-01-15T00:00:00.000Z', end: '2026-01-16T00:00:00.000Z' }
const FRIDAY = { start: '2026-01-16T00:00:00.000Z', end: '2026-01-17T00:00:00.000Z' }

describe('a reservation that grows', () => {
  test('is charged in each window in which it was taken', async () => {
    const reserve = { reserve: { first: 100, step: 100 } }
    const rules = [
      llmRule('tokens', [], { tokens_per_day: 90_000, ...reserve }),
      budgetRule('money', [], { budget: 9_000, prices: 'main', ...reserve }),
      budgetRule('month', [], { budget: 9_000, period: '1mo', prices: 'main', ...reserve }),
    ]
    const backend = await scriptedLlm()
    const proxy = await usageProxy(backend, { bundle: { ...bundle(1, policy('llm', { rules })), prices: PRICES } })
    const client = proxy.open(CHAT, { model: 'big', messages: HELLO, max_tokens: 900, stream: true })
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'abcd'.repeat(40) }))
    await client.untilText('abcd')
    proxy.clock.advance(DAY_MS)
    await call.write(chatChunk({ content: 'efgh'.repeat(300) }))
    await client.untilText('efgh')
    call.end(chatChunk({}, 'stop') + sse('[DONE]'))
    await client.untilClosed()
    const [line] = await proxy.lines(1)
    expect(line).toMatchObject({ end: 'done', tokens: { input: 3, output: 340 } })
    const [tokens, money, month] = line!.rules as unknown as { windows: { start: string; end: string; charged: number }[] }[]
    expect(tokens!.windows).toEqual([
      { ...THURSDAY, charged: 103 },
      { ...FRIDAY, charged: 240 },
    ])
    expect(money!.windows).toMatchObject([THURSDAY, FRIDAY])
    expect(month!.windows).toMatchObject([{ start: '2026-01-01T00:00:00.000Z', end: '2026-02-01T00:00:00.000Z' }])
    expectSumsOf([line!], await proxy.metrics())
  })
})

describe('a routed request', () => {
  test('has the backend that answered, the model that it got, and its price', async () => {
    const [busy, good] = [await fakeLlm({ fail: 503 }), await fakeLlm({ tokens: 10 })]
    const urls = { busy: { url: `http://127.0.0.1:${busy.port}` }, good: { url: `http://127.0.0.1:${good.port}` } }
    const routes = [
      { backends: [{ name: 'busy', model: 'big' }], fallback: [{ name: 'good', model: 'small-1' }], retry: { on: ['5xx'], attempts: 1 } },
    ]
    const rules = [budgetRule('money', [], { budget: 9_000, prices: 'main' })]
    const proxy = await usageProxy(good, {
      bundle: { ...routedBundle(1, urls, routes, {}, [policy('llm', { rules })]), prices: PRICES },
      env: { EDGE_BACKEND_HOSTS: hostsOf(urls) },
    })
    expect((await proxy.post(CHAT, { ...BIG, model: 'any' })).status).toBe(200)
    const [line] = await proxy.lines(1)
    expect(line).toMatchObject({ model: 'any', sent_model: 'small-1', backend: 'good', status: 200, end: 'done' })
    // Three tokens of the prompt and ten of the completion, at the prices of the model that was sent.
    expect(line!.rules).toMatchObject([{ cost_nanos: 3 * 1_000_000 + 10 * 2_000_000 }])
    expectSumsOf([line!], await proxy.metrics())

    await good.close()
    expect((await proxy.post(CHAT, { ...BIG, model: 'any' })).status).toBe(502)
    const [, failed] = await proxy.lines(2)
    expect(failed).toMatchObject({
      backend: 'good',
      sent_model: 'small-1',
      end: 'backend_failed',
      usage: 'nothing',
      rules: [{ cost_nanos: 0 }],
    })
    expectSumsOf(await proxy.lines(2), await proxy.metrics())
  })
})

test('a WebSocket is charged what it reserved, and has its status', async () => {
  const server = createServer()
  server.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nword')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  const proxy = await usageProxy(
    { port: (server.address() as AddressInfo).port },
    { bundle: usageBundle(1, [], { websockets: 'reserve' }) },
  )
  const asked = 'GET /v1/listen HTTP/1.1\r\nHost: a\r\nX-Team: red\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  expect(await exchange(proxy.port, asked)).toMatch(/^HTTP\/1\.1 101 .*word$/s)
  const [line] = await proxy.lines(1)
  expect(line).toMatchObject({ status: 101, end: 'done', usage: 'unknown', first_byte_ms: 0 })
  const [tokens] = line!.rules as unknown as { reserved_tokens: number; tokens: number }[]
  expect(tokens!.tokens).toBe(tokens!.reserved_tokens)
  expect(tokens!.tokens).toBeGreaterThan(0)
  expectSumsOf([line!], await proxy.metrics())
})

test('a whole answer without usage is estimated, whatever becomes of such streams, and says so', async () => {
  const backend = await answeringLlm(200, { choices: [{ message: { content: 'abcd'.repeat(7) } }] })
  const proxy = await usageProxy(backend, { bundle: usageBundle(1, [], { without_usage: 'keep' }) })
  await proxy.post(CHAT, BIG, [RED])
  const [line] = await proxy.lines(1)
  expect(line).toMatchObject({ estimate: 'fair', tokens: { input: 3, output: 7 }, rules: [{ tokens: 10 }, {}, { tokens: 10 }] })
  expectSumsOf([line!], await proxy.metrics())
})

test('a budget whose cost comes from a header field is in no line', async () => {
  const rules = [budgetRule('paid', [], { budget: 100, cost: { header: 'x-cost', default: 1 } })]
  const priced = usageBundle(1) as { policies: ReturnType<typeof policy>[] }
  const proxy = await usageProxy(await fakeLlm({ tokens: 10 }), {
    bundle: { ...priced, policies: [...priced.policies, policy('paid', { rules })] },
  })
  await proxy.post(CHAT, BIG, [RED, ['X-Cost', '2.5']])
  const [line] = await proxy.lines(1)
  expect(line!.rules.map(({ policy: id }) => id)).toEqual(['llm', 'llm', 'watched'])
  expectSumsOf([line!], await proxy.metrics())
})

describeWithRedis('with counters in Redis', () => {
  const redis = redisOfSuite()

  test.each(['exact', 'leased'])('%s: lines add up to the metrics, and have their windows', async (mode) => {
    const env = { EDGE_REDIS_URL: redis().url, EDGE_REDIS_MODE: mode }
    const proxy = await usageProxy(await fakeLlm({ tokens: 10 }), { env, service: { redisDeadlines: new HeldDeadlines() } })
    for (let i = 0; i < 5; i++) expect((await proxy.post(CHAT, { ...BIG, stream: i % 2 === 0 }, [RED])).status).toBe(200)
    const lines = await proxy.lines(5)
    for (const { rules } of lines) {
      expect(rules).toMatchObject([{ reserved_tokens: 53, tokens: 13 }, { cost_nanos: 230_000_000 }, { mode: 'shadow', tokens: 13 }])
      for (const rule of rules as unknown as { windows: object[] }[]) expect(rule.windows).toHaveLength(1)
    }
    expectSumsOf(lines, await proxy.metrics())
  })
})
