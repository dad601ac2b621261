import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, EMBEDDINGS, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Several LLM rules on one request: each counts and settles on its own; the first enforcing one exceeded cuts, its way. */

const BODY = JSON.stringify({ stream: true, messages: HELLO })
const CALLER: Fields = [['X-Caller', 'ann']]

async function proxied(backend: { readonly port: number }, ...rules: readonly object[]): Promise<Edge> {
  return running({
    clock: new ManualClock(),
    bundle: bundle(1, policy('llm', { rules })),
    env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) },
  })
}

function tokensOf(rule: string, edge: Edge): Promise<number[]> {
  const names = ['reserved', 'used']
  return Promise.all(names.map((name) => edge.metric(`edge_llm_tokens_${name}_total{policy="llm",rule="${rule}"}`)))
}

/** What is left of the scarcer budget, and how large it is. A request for nothing asks. */
async function scarcest(edge: Edge, fields: Fields = CALLER): Promise<string> {
  const { headers } = await ask(edge.port, 'POST', EMBEDDINGS, fields, '{"input":""}')
  return `${headers['ratelimit-remaining']} of ${headers['ratelimit-limit']}`
}

describe('the cut', () => {
  test('comes from the first rule that is exceeded, in its way; both are charged for what was generated', async () => {
    const edge = await proxied(
      await fakeLlm({ tokens: 50 }),
      llmRule('wide', [], { tokens_per_minute: 9000, max_completion_tokens: 20, streaming: { buffer_tokens: 1 } }),
      llmRule('narrow', [], {
        tokens_per_minute: 9001,
        max_completion_tokens: 10,
        streaming: { buffer_tokens: 1, on_limit_exceeded: 'error_chunk', include_partial_usage: false },
      }),
    )
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.data.slice(-2)).toEqual([
      { error: { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' } },
      '[DONE]',
    ])
    // The other rule wants usage on each event, and gets it until then.
    expect(client.data[3]).toMatchObject({ usage: { completion_tokens: 3 } })
    expect(await tokensOf('wide', edge)).toEqual([HELLO_TOKENS + 20, HELLO_TOKENS + 11])
    expect(await tokensOf('narrow', edge)).toEqual([HELLO_TOKENS + 10, HELLO_TOKENS + 11])
    expect(await untilLogged(edge, 'truncated')).toMatchObject([{ rule: 'narrow', completion_tokens: 11 }])
    expect(await edge.metric('edge_llm_settlements_total{end="truncated"}')).toBe(1)
    expect(await scarcest(edge)).toBe(`${9000 - HELLO_TOKENS - 11} of 9000`)
  })

  test('each rule looks as often as its own buffer_tokens say', async () => {
    const edge = await proxied(
      await fakeLlm({ tokens: 50 }),
      llmRule('seldom', [], { tokens_per_minute: 9000, max_completion_tokens: 5, streaming: { buffer_tokens: 30 } }),
      llmRule('often', [], { tokens_per_minute: 9001, max_completion_tokens: 20, streaming: { buffer_tokens: 4 } }),
    )
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.data.at(-2)).toMatchObject({ usage: { completion_tokens: 24 } })
    expect(await untilLogged(edge, 'truncated')).toMatchObject([{ rule: 'often', completion_tokens: 24 }])
    expect(await scarcest(edge)).toBe(`${9000 - HELLO_TOKENS - 24} of 9000`)
  })

  test('exceeded by one event alike, the first in the bundle cuts', async () => {
    const narrow = { max_completion_tokens: 10, streaming: { buffer_tokens: 1 } }
    const edge = await proxied(
      await fakeLlm({ tokens: 50 }),
      llmRule('first', [], { tokens_per_minute: 9000, ...narrow }),
      llmRule('second', [], { tokens_per_minute: 9001, ...narrow, streaming: { buffer_tokens: 1, on_limit_exceeded: 'error_chunk' } }),
    )
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(await untilLogged(edge, 'truncated')).toMatchObject([{ rule: 'first' }])
    expect(await tokensOf('second', edge)).toEqual([HELLO_TOKENS + 10, HELLO_TOKENS + 11])
  })

  test('a rule with enabled: false keeps what it reserved, whatever the others do', async () => {
    const edge = await proxied(
      await fakeLlm({ tokens: 50 }),
      llmRule('off', [], { tokens_per_minute: 9000, max_completion_tokens: 40, streaming: { enabled: false } }),
      llmRule('on', [], { tokens_per_minute: 9001, max_completion_tokens: 10, streaming: { buffer_tokens: 1 } }),
    )
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(await tokensOf('off', edge)).toEqual([HELLO_TOKENS + 40, HELLO_TOKENS + 40])
    expect(await tokensOf('on', edge)).toEqual([HELLO_TOKENS + 10, HELLO_TOKENS + 11])
  })
})

describe('the reservation', () => {
  test('is taken from all rules or from none', async () => {
    const backend = await fakeLlm()
    const edge = await proxied(
      backend,
      llmRule('large', [], { tokens_per_minute: 9000, max_completion_tokens: 100 }),
      llmRule('small', [], { tokens_per_minute: 50, max_completion_tokens: 100 }),
    )
    const answer = await ask(edge.port, 'POST', CHAT, [], BODY)
    expect([answer.status, answer.headers['ratelimit-limit']]).toEqual([429, '50'])
    expect(await scarcest(edge)).toBe('9000 of 9000')
    expect(backend.requests.map(({ url }) => url)).toEqual([EMBEDDINGS])
  })

  test('each rule reserves by its own bound, and keeps it for its own caller', async () => {
    const backend = await scriptedLlm((call) => {
      if (call.req.url === EMBEDDINGS) call.answer(200, {})
    })
    const edge = await proxied(
      backend,
      llmRule('everybody', [], { tokens_per_minute: 1000, max_completion_tokens: 400 }),
      llmRule('caller', ['header:x-caller'], { tokens_per_minute: 300, max_completion_tokens: 100 }),
    )
    const client = new StreamClient(edge.port, CHAT, BODY, CALLER)
    const call = await backend.next()
    // 597 of 1000, and 197 of 300
    expect(await scarcest(edge, [])).toBe('597 of 1000')
    expect(await scarcest(edge, CALLER)).toBe('597 of 1000')
    call.begin()
    await call.write(chatChunk({ content: 'abcdefgh' }))
    await client.untilText('abcdefgh')
    client.abort()
    await until(() => call.isAborted)
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    expect(await scarcest(edge, [])).toBe(`${1000 - HELLO_TOKENS - 2} of 1000`)
    expect(await scarcest(edge, CALLER)).toBe(`${300 - HELLO_TOKENS - 2} of 300`)
    expect(await scarcest(edge, [['X-Caller', 'ben']])).toBe(`${1000 - HELLO_TOKENS - 2} of 1000`)
  })

  test('a rule whose descriptor is missing neither reserves nor settles', async () => {
    const edge = await proxied(
      await fakeLlm({ tokens: 5 }),
      llmRule('caller', ['header:x-caller'], { tokens_per_minute: 300, max_completion_tokens: 100 }),
      llmRule('everybody', [], { tokens_per_minute: 1000, max_completion_tokens: 400 }),
    )
    await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(await tokensOf('caller', edge)).toEqual([0, 0])
    expect(await tokensOf('everybody', edge)).toEqual([HELLO_TOKENS + 400, HELLO_TOKENS + 5])
  })
})
