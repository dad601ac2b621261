import { describe, expect, test } from 'vitest'
import { budgetRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { routing, saying } from '../../support/proxy/routed.ts'
import { until } from '../../support/until.ts'

const ON_STATUS = { on: [429, '5xx'], attempts: 2 }
const json = (body: string): RequestInit => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body })

describe('money', () => {
  test('is reserved for the dearest model that the route may send, and settled by the one that was sent', async () => {
    const usage = JSON.stringify({ usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 }, choices: [] })
    const a = await HttpBackend.start(saying('no', 500))
    const b = await HttpBackend.start(saying(usage, 200, { 'Content-Type': 'application/json' }))
    const prices = { cheap: { input: 1, output: 1 }, dear: { input: 100, output: 100 }, '*': { input: 10, output: 10 } }
    const rule = budgetRule('r', ['ip:address'], { budget: 1, period: '1d', prices: 'list' })
    const route = { backends: [{ name: 'a', model: 'dear' }], fallback: [{ name: 'b', model: 'cheap' }], retry: ON_STATUS }
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules: [rule] })], prices: { list: prices } })
    const ask = (tokens: number) =>
      fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify({ model: 'any', max_tokens: tokens, messages: [] })))
    // 20,000 tokens of the dear model would cost 2, of all others 0.2 at most.
    expect((await ask(20_000)).status).toBe(429)
    const response = await ask(5000)
    expect([response.status, (await response.text()) === usage]).toEqual([200, true])
    // Settled by the dear model, 0.2 would be gone.
    await until(async () => (await ask(9900)).status === 200)
  })
})

describe('tokens', () => {
  const USED = 'edge_llm_tokens_used_total{policy="p",rule="r"}'
  const RESERVED = 'edge_llm_tokens_reserved_total{policy="p",rule="r"}'
  const BACK = 'edge_llm_tokens_given_back_total{policy="p",rule="r"}'
  const route = { backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: ON_STATUS }
  const asked = { model: 'm', max_tokens: 5000, messages: [{ role: 'user', content: 'hello' }] }
  const streams = { 'Content-Type': 'text/event-stream' }

  test('are reserved once for two attempts, and settled by the answer that the client got', async () => {
    const usage = (tokens: number) =>
      JSON.stringify({ usage: { prompt_tokens: tokens, completion_tokens: tokens, total_tokens: 2 * tokens }, choices: [] })
    const a = await HttpBackend.start(saying(usage(400), 503, { 'Content-Type': 'application/json' }))
    const b = await HttpBackend.start(saying(usage(50), 200, { 'Content-Type': 'application/json' }))
    const rules = [llmRule('r', [], { tokens_per_day: 100_000 })]
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules })] })
    const response = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify(asked)))
    expect(await response.text()).toBe(usage(50))
    await until(async () => (await edge.metric(USED)) === 100)
    expect((await edge.metric(RESERVED)) - (await edge.metric(BACK))).toBe(100)
    expect([a.seen.length, b.seen.length]).toEqual([1, 1])
  })

  test.each([
    ['estimate', 100],
    ['keep', 5002],
  ] as const)('are kept once with `keep`, however many backends were left after a timeout: %s', async (without_usage, charged) => {
    const silent = await HttpBackend.start(() => {})
    const usage = JSON.stringify({ usage: { prompt_tokens: 50, completion_tokens: 50, total_tokens: 100 }, choices: [] })
    const last = await HttpBackend.start(saying(usage, 200, { 'Content-Type': 'application/json' }))
    const rules = [llmRule('r', [], { tokens_per_day: 100_000, without_usage })]
    const left = { headers_timeout_seconds: 0.1 }
    const chain = { ...route, fallback: [{ name: 'b' }, { name: 'c' }], retry: { on: ['timeout'], attempts: 2 } }
    const edge = await routing({ a: silent, b: silent, c: last }, [chain], {
      policies: [policy('p', { rules })],
      more: { a: left, b: left },
    })
    const response = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify(asked)))
    expect([response.status, silent.seen.length]).toEqual([200, 2])
    await until(async () => (await edge.metric(USED)) === charged)
  })

  test('of a reservation that grows are taken for the stream of the second backend alone', async () => {
    const words = Array.from({ length: 300 }, (_, i) => `w${String(i).padStart(3, '0')}`)
    const a = await HttpBackend.start(saying(chatStream(words), 500, streams))
    const b = await HttpBackend.start(saying(words.map((content) => chatChunk({ content })).join('') + sse('[DONE]'), 200, streams))
    const rules = [llmRule('r', [], { tokens_per_day: 100_000, reserve: { first: 100, step: 100 } })]
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules })] })
    const body = JSON.stringify({ ...asked, stream: true })
    const response = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(body))
    expect(await response.text()).toContain('w299')
    await until(async () => (await edge.metric('edge_llm_tokens_in_flight{policy="p",rule="r"}')) === 0)
    const used = await edge.metric(USED)
    // The prompt is estimated, each word is a token.
    expect(used).toBeGreaterThanOrEqual(300)
    expect(used).toBeLessThan(320)
    expect((await edge.metric(RESERVED)) - (await edge.metric(BACK))).toBe(used)
    expect(await edge.metric('edge_llm_growth_total{policy="p",rule="r",outcome="granted"}')).toBeGreaterThanOrEqual(2)
  })

  test('are given back if all backends fail', async () => {
    const [a, b] = [await HttpBackend.start((_req, res) => void res.destroy()), await HttpBackend.start((_req, res) => void res.destroy())]
    const rules = [llmRule('r', [], { tokens_per_day: 100_000 })]
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules })] })
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify(asked)))).status).toBe(502)
    await until(async () => (await edge.metric(BACK)) > 0)
    expect([await edge.metric(USED), (await edge.metric(RESERVED)) - (await edge.metric(BACK))]).toEqual([0, 0])
    expect([a.seen.length, b.seen.length]).toEqual([1, 1])
  })
})
