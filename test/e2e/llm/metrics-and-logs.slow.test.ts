import { describe, expect, test } from 'vitest'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { answeringLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 100 }
const RESERVED = HELLO_TOKENS + 100
const RULE = '{policy="llm",rule="budget"}'

async function tokens(proxy: LlmProxy): Promise<Record<string, number>> {
  const names = ['reserved', 'used', 'given_back', 'overdrawn']
  const values = await Promise.all(names.map((name) => proxy.edge.metric(`edge_llm_tokens_${name}_total${RULE}`)))
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]))
}

describe('tokens', () => {
  test('charged beyond the reservation', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(['x'.repeat(480)])))
    await proxy.stream(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 120))
    expect(await tokens(proxy)).toEqual({ reserved: RESERVED, used: HELLO_TOKENS + 120, given_back: 0, overdrawn: 20 })
  })

  test('a failed answer has used none', async () => {
    const proxy = await llmProxy(await answeringLlm(500, {}))
    await proxy.post(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(0))
    expect(await tokens(proxy)).toEqual({ reserved: RESERVED, used: 0, given_back: RESERVED, overdrawn: 0 })
  })

  test('a reject reserves nothing', async () => {
    const proxy = await llmProxy(await answeringLlm(200, {}))
    expect((await proxy.post(CHAT, { messages: HELLO, max_tokens: 1_000_000 })).status).toBe(429)
    expect(await tokens(proxy)).toEqual({ reserved: 0, used: 0, given_back: 0, overdrawn: 0 })
    expect(await proxy.edge.metric('edge_decisions_total{action="reject",reason="tpm_exceeded",policy="llm",route="/"}')).toBe(1)
    expect(await proxy.edge.metric('edge_rejects_total{policy="llm",rule="budget",reason="tpm_exceeded"}')).toBe(1)
  })
})

describe('truncations', () => {
  test('a stream within its bound logs nothing', async () => {
    const proxy = await llmProxy(await fakeLlm({ tokens: 10 }), { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } })
    await proxy.stream(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 10))
    expect(proxy.edge.log.filter(({ event }) => String(event).includes('trunc'))).toEqual([])
  })
})

describe('the accuracy of estimates', () => {
  test('nothing is compared where the provider tells nothing', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(['abcd'])))
    await proxy.stream(CHAT, ASKED)
    expect(await proxy.edge.metric('edge_llm_estimate_ratio_count{kind="completion"}')).toBe(0)
  })
})
