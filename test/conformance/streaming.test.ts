import { beforeAll, describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxyOptions, llmProxy, proxyEnv } from '../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../support/llm/scripted-llm.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import type { Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running, thisTest } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

/** Specification: the effect of the streaming object; streamed responses under States, Events and Limits. */

const ASKED = { stream: true, messages: HELLO }
const WORDS = Array.from({ length: 150 }, (_, i) => `w${String(i).padStart(3, '0')}`)

/** Ten completion tokens are allowed, and each is looked at. */
function tight(streaming: object = {}): LlmProxyOptions {
  return { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1, ...streaming } }
}

async function streamOf(texts: readonly string[], options: LlmProxyOptions, owner = thisTest) {
  const proxy = await llmProxy(await streamingLlm(chatStream(texts), 0, owner), options, owner)
  const client = await proxy.stream(CHAT, ASKED)
  return { proxy, client, seen: texts.filter((text) => client.text.includes(text)).length }
}

/** One stream that was cut, and one that a shadow policy would have cut: what several statements are about. */
const suite = thisSuite()
let cut: Awaited<ReturnType<typeof streamOf>>
let shadow: Awaited<ReturnType<typeof shadowStream>>
beforeAll(async () => {
  cut = await streamOf(WORDS, tight(), suite)
  shadow = await shadowStream()
})

describe('the streaming object', () => {
  test('[streaming-6] enabled: false switches the body filter off; it is on by default', async () => {
    const off = await streamOf(WORDS, tight({ enabled: false }))
    expect(off.client.text).toBe(chatStream(WORDS))
    expect(cut.seen).toBe(10)
  })

  test('[streaming-7] enforce_mid_stream: true truncates, which is the default; false only counts', async () => {
    expect(cut.seen).toBe(10)
    const counting = await streamOf(WORDS, tight({ enforce_mid_stream: false }))
    expect(counting.seen).toBe(150)
    expect(await counting.proxy.spent()).toEqual(both(HELLO_TOKENS + 150))
  })

  test('[streaming-8] the budget is checked every buffer_tokens tokens, 100 by default', async () => {
    expect((await streamOf(WORDS, { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 25 } })).seen).toBe(24)
    expect((await streamOf(WORDS, { config: { max_completion_tokens: 10 } })).seen).toBe(99)
  })

  test('[streaming-9] on_limit_exceeded: graceful_close ends the stream as if by its length, error_chunk with an error', async () => {
    const graceful = await streamOf(WORDS, tight({ on_limit_exceeded: 'graceful_close' }))
    const failing = await streamOf(WORDS, tight({ on_limit_exceeded: 'error_chunk' }))
    const ends = [cut, graceful, failing].map(({ client }) => {
      return Object.keys(client.data.at(-2) as object).filter((key) => key === 'choices' || key === 'error')
    })
    expect(ends).toEqual([['choices'], ['choices'], ['error']])
  })

  test('[streaming-10] include_partial_usage appends usage to the close event and to each event, by default', async () => {
    const hasUsage = ({ client }: Awaited<ReturnType<typeof streamOf>>) =>
      client.data.slice(0, -1).map((event) => Object.hasOwn(event as object, 'usage'))
    expect(new Set(hasUsage(cut))).toEqual(new Set([true]))
    expect(new Set(hasUsage(await streamOf(WORDS, tight({ include_partial_usage: false }))))).toEqual(new Set([false]))
  })
})

describe('the usage object', () => {
  test('[usage-1] has prompt_tokens, completion_tokens and total_tokens, all integers', async () => {
    for (const event of cut.client.data.slice(0, -1)) {
      const { usage } = event as { usage: Record<string, unknown> }
      expect(Object.keys(usage)).toEqual(['prompt_tokens', 'completion_tokens', 'total_tokens'])
      expect(Object.values(usage).every(Number.isInteger)).toBe(true)
      expect(usage['total_tokens']).toBe((usage['prompt_tokens'] as number) + (usage['completion_tokens'] as number))
    }
  })
})

describe('the states of a streamed response', () => {
  test('[state-8] streaming → tokens exceed max_completion_tokens → truncated: the rest is suppressed, a close event injected', async () => {
    const { client, seen, proxy } = cut
    expect([seen, client.outcome, client.data.at(-1)]).toEqual([10, 'whole', '[DONE]'])
    expect(client.data.at(-2)).toMatchObject({ choices: [{ delta: {}, finish_reason: 'length' }] })
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test('[state-9] streaming → upstream [DONE] → ended: reconciliation runs', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { ...ASKED, max_tokens: 500 })
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'abcd' }))
    await client.untilText('abcd')
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 500))
    await call.write(sse('[DONE]'))
    await client.untilText('[DONE]')
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 1))
    call.end()
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
  })

  test('[state-10] truncated → the stream finishes → ended: it is reconciled once', async () => {
    const { proxy } = cut
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 11))
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(0)
  })

  test('[state-11] a policy in shadow does not truncate', async () => {
    expect(shadow.client.text).toBe(chatStream(WORDS))
  })
})

describe('events', () => {
  const USAGE = { prompt_tokens: 3, completion_tokens: 11, total_tokens: 14 }
  const BARE = sse({ choices: [{ delta: { content: 'x'.repeat(44) } }] })

  test('[event-1] graceful_close: data: <JSON>, a blank line, then data: [DONE]', async () => {
    const backend = await streamingLlm(BARE)
    const usage = await (await llmProxy(backend, tight())).stream(CHAT, ASKED)
    expect(usage.text).toBe(
      `data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason: 'length' }], usage: USAGE })}\n\ndata: [DONE]\n\n`,
    )
    const without = await (await llmProxy(backend, tight({ include_partial_usage: false }))).stream(CHAT, ASKED)
    expect(without.text).toBe('data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n')
  })

  test('[event-2] error_chunk: the same with the error', async () => {
    const proxy = await llmProxy(await streamingLlm(BARE), tight({ on_limit_exceeded: 'error_chunk' }))
    const client = await proxy.stream(CHAT, ASKED)
    const error = { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' }
    expect(client.text).toBe(`data: ${JSON.stringify({ error, usage: USAGE })}\n\ndata: [DONE]\n\n`)
  })

  test('[event-3] with include_partial_usage each event that passes has a usage field appended', async () => {
    const proxy = await llmProxy(await streamingLlm('data: {"choices":[{"index":0,"delta":{"content":"abcd"}}]}\n\ndata: [DONE]\n\n'))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(
      'data: {"choices":[{"index":0,"delta":{"content":"abcd"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\ndata: [DONE]\n\n',
    )
  })

  test('[event-4] in shadow mode a truncation is logged as would_truncate with the token count; the stream goes on', async () => {
    expect(shadow.client.text).toBe(chatStream(WORDS))
    expect(await untilLogged(shadow.edge, 'would_truncate')).toMatchObject([{ completion_tokens: 11 }])
  })
})

describe('limits', () => {
  /** Each question is a caller of its own. */
  const PER_CALLER = { limitKeys: ['header:x-caller'] }
  const callerOf = (name: string): Fields => [['X-Caller', name]]

  test('[limit-5] the estimate of a completion is ceil(characters / 4) over all of it', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, PER_CALLER)
    for (const [texts, tokens] of [
      [['a'], 1],
      [['abcd'], 1],
      [['abcd', 'e'], 2],
      [['a', 'b', 'c', 'd'], 1],
    ] as const) {
      const caller = callerOf(texts.join('-'))
      const client = proxy.open(CHAT, ASKED, caller)
      const call = await backend.next()
      call.begin()
      call.end(chatStream(texts))
      await client.untilClosed()
      expect(await proxy.spent(caller)).toEqual(both(HELLO_TOKENS + tokens))
    }
  })

  test('[limit-6] the estimate of a prompt follows the same rule', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { choices: [], usage: { completion_tokens: 0 } }), PER_CALLER)
    for (const [content, tokens] of [
      ['', 0],
      ['a', 1],
      ['abcd', 1],
      ['abcde', 2],
    ] as const) {
      const caller = callerOf(`sends ${content}`)
      await proxy.post(CHAT, { messages: [{ role: 'user', content }] }, caller)
      expect(await proxy.spent(caller)).toEqual(both(tokens))
    }
  })

  test('[limit-7] the reservation is the prompt and the smaller of max_tokens and max_completion_tokens', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { ...PER_CALLER, config: { max_completion_tokens: 100 } })
    for (const [max_tokens, reserved] of [
      [50, 50],
      [500, 100],
    ] as const) {
      const caller = callerOf(`asks for ${max_tokens}`)
      const client = proxy.open(CHAT, { messages: HELLO, max_tokens }, caller)
      const call = await backend.next()
      expect(await proxy.held(caller)).toEqual(both(HELLO_TOKENS + reserved))
      call.answer(500, {})
      await client.untilClosed()
    }
  })

  test('[limit-8] truncation applies when the tokens used exceed max_completion_tokens, not when they reach it', async () => {
    const ten = await streamOf(WORDS.slice(0, 10), tight())
    expect([ten.seen, ten.client.text.includes('"length"')]).toEqual([10, false])
    const eleven = await streamOf(WORDS.slice(0, 11), tight())
    expect([eleven.seen, eleven.client.text.includes('"length"')]).toEqual([10, true])
  })

  test('[limit-9] Accept: text/event-stream or "stream": true activate streaming enforcement; nothing else does', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight())
    const isCut = async (body: object, fields: Fields = []) => {
      return (await proxy.open(CHAT, { messages: HELLO, ...body }, fields).untilClosed()).text !== chatStream(WORDS)
    }
    expect(await isCut({}, [['Accept', 'text/event-stream']])).toBe(true)
    expect(await isCut({ stream: true })).toBe(true)
    expect(await isCut({}, [['Accept', 'application/json']])).toBe(false)
  })

  test('[limit-10] an event passes when its blank line is there, and delta.content adds to the count', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    const [event, next] = [chatChunk({ content: 'abcd' }), chatChunk({ content: 'efgh' })]
    call.begin()
    await call.write(`: first\n\n${event.slice(0, -1)}`)
    await client.untilText(': first\n\n')
    expect(client.text).toBe(': first\n\n')
    await call.write(event.slice(-1) + next)
    await client.untilText('efgh')
    expect(client.data).toMatchObject([{ usage: { completion_tokens: 1 } }, { usage: { completion_tokens: 2 } }])
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })

  test('[limit-11] what was reserved and not used is credited to the minute and the day, on [DONE] and on truncation', async () => {
    const done = await streamOf(['abcd'], { config: { max_completion_tokens: 500 } })
    expect(await done.proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
    const truncated = await streamOf(WORDS, { config: { max_completion_tokens: 100 }, streaming: { buffer_tokens: 101 } })
    expect(await truncated.proxy.spent()).toEqual(both(HELLO_TOKENS + 101))
  })

  test('[limit-12] without a stream it is credited right after the full body was received', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { messages: HELLO, max_tokens: 500 })
    const call = await backend.next()
    call.begin({ 'Content-Type': 'application/json' })
    await call.write('{"choices":[{"message":{"content":"abcd"}}]')
    await client.untilText('abcd')
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 500))
    call.end('}')
    await client.untilClosed()
    await until(async () => (await proxy.edge.metric('edge_proxy_open_requests')) === 0)
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 1))
  })
})

async function shadowStream() {
  const backend = await streamingLlm(chatStream(WORDS), 0, suite)
  const rule = llmRule('tried', [], { tokens_per_minute: 1000, max_completion_tokens: 10, streaming: { buffer_tokens: 1 } })
  const trial = policy('trial', { mode: 'shadow', rules: [rule] })
  const edge = await running({ clock: new ManualClock(), bundle: bundle(1, trial), env: proxyEnv(backend) }, suite)
  const client = await new StreamClient(edge.port, CHAT, JSON.stringify(ASKED)).untilClosed()
  return { edge, client }
}
