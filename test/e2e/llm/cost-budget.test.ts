import { beforeAll, describe, expect, test } from 'vitest'
import { CHAT, fakeLlm } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { type MoneyProxy, moneyProxy } from '../../support/llm/money-proxy.ts'
import { BIG, DIALECTS, pricedDialectsSuite } from '../../support/llm/priced-dialects-suite.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

pricedDialectsSuite(DIALECTS.slice(0, 1))

describe('a model', () => {
  const suite = thisSuite()
  let proxy: MoneyProxy
  beforeAll(async () => {
    proxy = await moneyProxy(await fakeLlm({ tokens: 10 }, suite), { limitKeys: ['header:x-caller'] }, suite)
  })

  test('has its price, and none is free by accident', async () => {
    const [big, small, other] = [3 * 0.01 + 0.2, 3 * 0.001 + 0.02, 3 * 0.04 + 0.8]
    const costs: readonly [model: unknown, cost: number][] = [
      ['big', big],
      ['big-2026', big],
      ['small-1', small],
      ['small-12', other],
      ['Big', other],
      ['__proto__', other],
      [undefined, other],
      [7, other],
    ]
    const callerOf = (model: unknown) => [['X-Caller', `for ${model}`]] as const
    await Promise.all(costs.map(([model]) => proxy.post(CHAT, { ...BIG, model }, callerOf(model))))
    await proxy.untilQuiet()
    for (const [model, cost] of costs) expect(await proxy.left(callerOf(model)), String(model)).toBeCloseTo(100 - cost, 9)
  })

  test('that is named twice is refused', async () => {
    const answer = await proxy.post(CHAT, '{"model":"small-1","messages":[],"m\\u006fdel":"big"}', [['X-Caller', 'twice']])
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
  })
})

describe('a budget', () => {
  test('is the sum for each team, in hundredths, until its window ends', async () => {
    const backend = await fakeLlm({ tokens: 40 })
    const proxy = await moneyProxy(backend, { budget: 2.5, limitKeys: ['header:x-team'] })
    const team = (name: string) => [['X-Team', name]] as const
    const first = await proxy.post(CHAT, { ...BIG, max_tokens: 40 }, team('red'))
    expect([first.status, first.headers['ratelimit-limit'], first.headers['ratelimit-remaining']]).toEqual([200, '250', '161'])
    expect(first.headers['ratelimit']).toBe('"money";r=161;t=43200')
    await proxy.untilQuiet()
    await proxy.post(CHAT, { ...BIG, max_tokens: 40 }, team('red'))
    await proxy.untilQuiet()
    const rejected = await proxy.post(CHAT, { ...BIG, max_tokens: 40 }, team('red'))
    expect(rejected.status).toBe(429)
    expect(rejected.headers).toMatchObject({
      'x-edge-reason': 'budget_exceeded',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '43200',
      'retry-after': '43200',
    })
    expect(JSON.parse(rejected.body).error).toEqual({
      message: 'The budget is exceeded: this request may cost 0.89 and 0.84 is left. Retry in 43200 s, at 2026-01-16T00:00:00Z.',
      type: 'rate_limit_error',
      code: 'budget_exceeded',
    })
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 40 }, team('blue'))).status).toBe(200)
    proxy.clock.advance(43_200_000)
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 40 }, team('red'))).headers['ratelimit-remaining']).toBe('161')
  })

  test('of which less than a hundredth is left has something left', async () => {
    const proxy = await moneyProxy(await fakeLlm({ tokens: 2 }), {
      budget: 0.0304,
      prices: { main: { '*': { input: 1_000, output: 10_000 } } },
    })
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 2 })).status).toBe(200)
    await proxy.untilQuiet()
    const rejected = await proxy.post(CHAT, { ...BIG, max_tokens: 2 })
    expect([rejected.status, rejected.headers['ratelimit-remaining']]).toEqual([429, '0'])
    expect(JSON.parse(rejected.body).error.message).toContain('this request may cost 0.023 and 0.0074 is left')
  })
})

describe('an end', () => {
  test('of a client that goes costs the prompt and what it has seen', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend)
    const client = proxy.open(CHAT, { ...BIG, stream: true })
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'abcd' }) + chatChunk({ content: 'efgh' }))
    await client.untilText('efgh')
    client.abort()
    expect(await proxy.leftWhenQuiet()).toBe(100 - (0.03 + 2 * 0.02))
  })
})

describe('a stream', () => {
  const text = chatStream(['a'.repeat(4000), 'b'])

  test('passes byte for byte: it is counted beside, and neither cut nor given usage', async () => {
    const proxy = await moneyProxy(await streamingLlm(text))
    const client = await proxy.stream(CHAT, { ...BIG, max_tokens: 5 })
    expect(client.text).toBe(text)
    expect(await proxy.leftWhenQuiet()).toBe(100 - (0.03 + 1001 * 0.02))
  })
})

describe('a budget in shadow', () => {
  test('counts, and changes nothing that the client sees', async () => {
    const proxy = await moneyProxy(await streamingLlm(chatStream(['abcd'])), { mode: 'shadow', budget: 3 })
    for (let i = 0; i < 3; i++) {
      const client = await proxy.stream(CHAT, BIG)
      expect([client.status, client.headers['ratelimit'], client.text]).toEqual([200, undefined, chatStream(['abcd'])])
      await proxy.untilQuiet()
    }
    expect(await proxy.edge.metric('edge_cost_spent_total{policy="money",rule="dollars"}')).toBeCloseTo(0.15)
    const wouldReject = 'edge_would_reject_total{policy="money",rule="dollars",reason="budget_exceeded"}'
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 200 })).status).toBe(200)
    expect(await proxy.edge.metric(wouldReject)).toBe(1)
  })
})
