import { describe, expect, test } from 'vitest'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 100 }
const RESERVED = HELLO_TOKENS + 100
const RULE = '{policy="llm",rule="budget"}'
const CUT = '{policy="llm",rule="budget",cause="max_completion_tokens"}'

async function tokens(proxy: LlmProxy): Promise<Record<string, number>> {
  const names = ['reserved', 'used', 'given_back', 'overdrawn']
  const values = await Promise.all(names.map((name) => proxy.edge.metric(`edge_llm_tokens_${name}_total${RULE}`)))
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]))
}

describe('tokens', () => {
  test('reserved, used and given back', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    expect(await tokens(proxy)).toEqual({ reserved: RESERVED, used: 0, given_back: 0, overdrawn: 0 })
    call.begin()
    call.end(chatStream(['abcd', 'efgh']))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await tokens(proxy)).toEqual({ reserved: RESERVED, used: HELLO_TOKENS + 2, given_back: 98, overdrawn: 0 })
  })

  test('every answer is settled once, whatever ends it, and counted by that end', async () => {
    const fake = await fakeLlm({ tokens: 20 })
    const proxy = await llmProxy(fake, { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } })
    await proxy.stream(CHAT, { ...ASKED, max_tokens: 5 })
    await proxy.stream(CHAT, ASKED)
    fake.options = { ...fake.options, fail: 'reset', failAfterTokens: 2 }
    await proxy.stream(CHAT, ASKED)
    fake.options = { ...fake.options, fail: 'stall' }
    const client = proxy.open(CHAT, ASKED)
    await client.untilText('"completion_tokens":2')
    client.abort()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5 + HELLO_TOKENS + 11 + 2 * (HELLO_TOKENS + 2)))
    expect(await proxy.settlements()).toEqual({ done: 1, truncated: 1, backend_failed: 1, client_gone: 1 })
    const { reserved, used, given_back, overdrawn } = await tokens(proxy)
    expect(reserved! - given_back! + overdrawn!).toBe(used)
    expect(used).toBe((await proxy.spent()).day)
  })
})

describe('truncations', () => {
  test('each is counted, and logged with policy, rule and tokens', async () => {
    const proxy = await llmProxy(await fakeLlm({ tokens: 30 }), { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 4 } })
    for (let i = 0; i < 2; i++) await proxy.stream(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(2 * (HELLO_TOKENS + 12)))
    expect(await proxy.edge.metric(`edge_llm_truncations_total${CUT}`)).toBe(2)
    expect(await proxy.edge.metric(`edge_llm_would_truncate_total${CUT}`)).toBe(0)
    const entry = { level: 30, policy: 'llm', rule: 'budget', completion_tokens: 12, max_completion_tokens: 10, msg: 'stream truncated' }
    expect(await untilLogged(proxy.edge, 'truncated', 2)).toMatchObject([entry, entry])
  })
})

describe('the accuracy of estimates', () => {
  const bucket = (proxy: LlmProxy, kind: string, le: string) =>
    proxy.edge.metric(`edge_llm_estimate_ratio_bucket{kind="${kind}",le="${le}"}`)

  test("our estimate against the provider's count, of a stream and of a whole answer", async () => {
    const usage = { prompt_tokens: 6, completion_tokens: 1, total_tokens: 7 }
    const stream = chatChunk({ content: 'abcdefgh' }) + sse({ choices: [], usage }) + sse('[DONE]')
    const whole = { choices: [{ message: { content: 'abcdefgh' } }], usage }
    const backend = await scriptedLlm((call) => {
      if (!call.body.includes('"stream":true')) return call.answer(200, whole)
      call.begin()
      call.end(stream)
    })
    const proxy = await llmProxy(backend)
    await proxy.stream(CHAT, ASKED)
    await proxy.post(CHAT, { messages: HELLO })
    expect(await proxy.spent()).toEqual(both(14))
    // 3 of 6, and 2 of 1
    expect([await bucket(proxy, 'prompt', '0.25'), await bucket(proxy, 'prompt', '0.5')]).toEqual([0, 2])
    expect([await bucket(proxy, 'completion', '1.5'), await bucket(proxy, 'completion', '2')]).toEqual([0, 2])
    expect(await proxy.edge.metric('edge_llm_estimate_ratio_sum{kind="completion"}')).toBe(4)
  })
})

describe('what is open, and the backend', () => {
  test('open streams and requests go up and come down again', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const clients = [1, 2, 3].map(() => proxy.open(CHAT, ASKED))
    const calls = [await backend.next(), await backend.next(), await backend.next()]
    expect(await proxy.edge.metric('edge_proxy_open_requests')).toBe(3)
    for (const call of calls) call.begin()
    for (const client of clients) await client.untilHead()
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(3)
    calls[0]!.end(chatStream(['abcd']))
    calls[1]!.reset()
    clients[2]!.abort()
    await until(() => calls[2]!.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1 + 0 + HELLO_TOKENS))
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(0)
    expect(await proxy.edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await proxy.edge.metric('edge_proxy_client_aborts_total')).toBe(1)
  })

  test("the backend's answers, failures and latency", async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const statuses = [200, 404, 500]
    for (const status of statuses) {
      const answered = proxy.post(CHAT, { messages: HELLO })
      const call = await backend.next()
      proxy.clock.advance(2000)
      call.answer(status, {})
      await answered
    }
    const reset = proxy.post(CHAT, { messages: HELLO })
    ;(await backend.next()).reset()
    expect((await reset).status).toBe(502)
    const classes = ['2xx', '4xx', '5xx'].map((name) => proxy.edge.metric(`edge_backend_responses_total{status="${name}"}`))
    expect(await Promise.all(classes)).toEqual([1, 1, 1])
    expect(await proxy.edge.metric('edge_backend_failures_total{reason="backend_reset"}')).toBe(1)
    expect(await proxy.edge.metric('edge_backend_response_seconds_count')).toBe(3)
    expect(await proxy.edge.metric('edge_backend_response_seconds_sum')).toBe(6)
    expect(await untilLogged(proxy.edge, 'backend_failed')).toMatchObject([{ reason: 'backend_reset' }])
  })
})
