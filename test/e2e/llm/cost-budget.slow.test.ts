import { describe, expect, test } from 'vitest'
import { llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, EMBEDDINGS, fakeLlm, MESSAGES } from '../../support/llm/llm-proxy.ts'
import { chatStream, sse } from '../../support/llm/llm-streams.ts'
import { moneyBundle, moneyProxy, PRICES } from '../../support/llm/money-proxy.ts'
import { BIG, DIALECTS, pricedDialectsSuite, RESERVED } from '../../support/llm/priced-dialects-suite.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

pricedDialectsSuite(DIALECTS.slice(1))

describe('a budget', () => {
  test('that can never cover a request says so', async () => {
    const proxy = await moneyProxy(await fakeLlm(), { budget: 2.5 })
    const answer = await proxy.post(CHAT, { ...BIG, max_tokens: 1000 })
    expect([answer.status, answer.headers['x-should-retry']]).toEqual([429, 'false'])
    const message =
      'The budget can never cover this request: this request may cost 20.09 and 2.5 is left, of 2.5 at most. Ask for fewer tokens.'
    expect(JSON.parse(answer.body).error.message).toBe(message)
  })

  test('reserves no completion for embeddings', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend)
    const answer = proxy.post(EMBEDDINGS, { model: 'big', input: 'hello there!' })
    const call = await backend.next()
    expect(await proxy.left()).toBe(99.91)
    call.answer(200, { usage: { prompt_tokens: 2, total_tokens: 2 } })
    await answer
    expect(await proxy.leftWhenQuiet()).toBe(99.98)
  })

  test('keeps what was spent when prices, budget and warnings change, and settles at the prices of the reservation', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend)
    const answer = proxy.post(CHAT, BIG)
    const call = await backend.next()
    const prices = { main: { ...PRICES.main, 'big*': { input: 1, output: 1 } } }
    await proxy.edge.publish(moneyBundle(2, { budget: 50, prices, config: { warn_at_percent: [90] } }))
    call.answer(200, { usage: { prompt_tokens: 3, completion_tokens: 10 } })
    await answer
    expect(await proxy.leftWhenQuiet()).toBe(50 - 0.23)
  })

  test('is settled after its rule was removed, and the money is back when the rule is', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend)
    const answer = proxy.post(CHAT, BIG)
    const call = await backend.next()
    await proxy.edge.publish({ bundle_version: 2, policies: [] })
    call.answer(200, { usage: { prompt_tokens: 3, completion_tokens: 10 } })
    await answer
    await proxy.edge.publish(moneyBundle(3))
    expect(await proxy.leftWhenQuiet()).toBe(100 - 0.23)
  })
})

describe('an end', () => {
  test('without usage costs the estimate, as the client did not ask for it', async () => {
    const proxy = await moneyProxy(await streamingLlm(chatStream(['abcd', 'efgh'])))
    await proxy.stream(CHAT, BIG)
    expect(await proxy.leftWhenQuiet()).toBe(100 - (0.03 + 2 * 0.02))
  })

  test('whose usage exceeds the reservation is charged too, and the budget may fall below zero', async () => {
    const proxy = await moneyProxy(await answeringLlm(200, { usage: { prompt_tokens: 3, completion_tokens: 10_000 } }))
    await proxy.post(CHAT, BIG)
    expect(await proxy.leftWhenQuiet()).toBe(0)
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 1 })).status).toBe(429)
  })

  test.each([
    ['below zero', { prompt_tokens: -3, completion_tokens: -1e9 }],
    ['no numbers', { prompt_tokens: 'NaN', completion_tokens: null }],
    ['fractions', { prompt_tokens: 0.5, completion_tokens: 0.5 }],
    ['beyond all numbers', { prompt_tokens: 1e300, completion_tokens: 1e300 }],
  ])('whose counts are %s costs the estimate: money is not created', async (_, usage) => {
    const answer = { choices: [{ message: { content: 'abcdefgh' } }], usage }
    const proxy = await moneyProxy(await answeringLlm(200, answer))
    await proxy.post(CHAT, BIG)
    expect(await proxy.leftWhenQuiet()).toBe(100 - (0.03 + 2 * 0.02))
  })

  test('with more cached tokens than the prompt has costs the whole prompt', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 9_000_000 } }
    const proxy = await moneyProxy(await answeringLlm(200, { usage }))
    await proxy.post(CHAT, BIG)
    expect(await proxy.leftWhenQuiet()).toBe(100 - 0.23)
  })

  test('with tokens written to the cache has them priced apart, beside the input', async () => {
    const usage = { input_tokens: 3, output_tokens: 10, cache_creation_input_tokens: 4, cache_read_input_tokens: 2 }
    const proxy = await moneyProxy(await answeringLlm(200, { type: 'message', content: [], usage }))
    await proxy.post(MESSAGES, BIG)
    expect(await proxy.leftWhenQuiet()).toBe(100 - (3 * 0.01 + 4 * 0.03 + 2 * 0.005 + 10 * 0.02))
  })
})

describe('a stream', () => {
  test('in gzip is counted, and passes as it came', async () => {
    const proxy = await moneyProxy(await fakeLlm({ tokens: 10, isGzip: true }))
    const client = await proxy.stream(CHAT, { ...BIG, stream_options: { include_usage: true } })
    expect(client.headers['content-encoding']).toBe('gzip')
    expect(await proxy.leftWhenQuiet()).toBe(100 - 0.23)
  })

  test('is counted for money even where a token budget beside it does not watch streams', async () => {
    const streaming = { enabled: false }
    const tokens = policy('tokens', { rules: [llmRule('t', [], { tokens_per_minute: 1000, streaming })] })
    const proxy = await moneyProxy(await streamingLlm(chatStream(['abcd'])), { policies: [tokens] })
    await proxy.stream(CHAT, BIG)
    await proxy.untilQuiet()
    expect(await proxy.edge.metric('edge_cost_spent_total{policy="money",rule="dollars"}')).toBe(0.05)
    expect(await proxy.edge.metric('edge_llm_tokens_used_total{policy="tokens",rule="t"}')).toBe(103)
  })

  test('is cut by a token budget beside it, and then costs what its closing says', async () => {
    const tokens = policy('tokens', {
      rules: [llmRule('t', [], { tokens_per_minute: 1000, max_completion_tokens: 5, streaming: { buffer_tokens: 1 } })],
    })
    const proxy = await moneyProxy(await streamingLlm(chatStream(Array(50).fill('abcd'))), { policies: [tokens] })
    const client = await proxy.stream(CHAT, BIG)
    expect(client.text).toContain('"finish_reason":"length"')
    expect(await proxy.leftWhenQuiet()).toBe(100 - (0.03 + 6 * 0.02))
  })
})

describe('metrics', () => {
  test('count money and tokens apart', async () => {
    const proxy = await moneyProxy(await answeringLlm(200, { usage: { prompt_tokens: 3, completion_tokens: 10 } }))
    await proxy.post(CHAT, BIG)
    await proxy.untilQuiet()
    const rule = '{policy="money",rule="dollars"}'
    expect(await proxy.edge.metric(`edge_cost_reserved_total${rule}`)).toBe(RESERVED)
    expect(await proxy.edge.metric(`edge_cost_spent_total${rule}`)).toBe(0.23)
    const { body } = await proxy.edge.get('/metrics')
    expect(body).not.toMatch(/^edge_llm_tokens_\w+\{/m)
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })
})

test('a body that only a budget in shadow cannot read passes', async () => {
  const proxy = await moneyProxy(await streamingLlm(sse('[DONE]')), { mode: 'shadow' })
  expect((await proxy.post(CHAT, '{"model":"a","model":"b"}')).status).toBe(200)
})
