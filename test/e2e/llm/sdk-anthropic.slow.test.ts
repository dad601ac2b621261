import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import { both, fakeLlm, HELLO_TOKENS, type LlmProxy, type LlmProxyOptions, llmProxy } from '../../support/llm/llm-proxy.ts'
import { CHARGED, clientsBothWays, collect, limitedTo, TIGHT, TIGHT_ERROR } from '../../support/llm/sdk-proxy.ts'
import { until } from '../../support/until.ts'

/** The official client, of which nothing is changed but its base URL. */

const ASKED = { model: 'claude', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hello there!' }] }

function client({ port }: { readonly port: number }, maxRetries = 0): Anthropic {
  return new Anthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: 'sk-ant-test', maxRetries })
}

function twoWays(tokens: number, options: LlmProxyOptions = {}): Promise<{ proxy: LlmProxy; edge: Anthropic; direct: Anthropic }> {
  return clientsBothWays(client, tokens, options)
}

describe('the client gets what it would get without us', () => {
  test('a message', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    expect(await edge.messages.create(ASKED)).toEqual(await direct.messages.create(ASKED))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test('a message as a stream', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const ours = await collect(await edge.messages.create({ ...ASKED, stream: true }))
    expect(ours).toEqual(await collect(await direct.messages.create({ ...ASKED, stream: true })))
    expect(ours.at(-1)!.type).toBe('message_stop')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test("a message through the client's own stream helper", async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const ours = await edge.messages.stream(ASKED).finalMessage()
    expect(ours).toEqual(await direct.messages.stream(ASKED).finalMessage())
    expect([ours.stop_reason, ours.usage.output_tokens]).toEqual(['end_turn', 5])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test('an error of the backend, as a status and as an event', async () => {
    for (const fail of ['status', 'error-event'] as const) {
      const fake = await fakeLlm({ fail })
      const proxy = await llmProxy(fake)
      const failure = async (sdk: Anthropic) =>
        (async () => collect(await sdk.messages.create({ ...ASKED, stream: true })))().catch((error: unknown) => error)
      const ours = (await failure(client(proxy))) as Error
      expect(ours).toBeInstanceOf(Anthropic.APIError)
      expect(ours.message).toBe(((await failure(client(fake))) as Error).message)
      expect(await proxy.spent()).toEqual(both(0))
    }
  })
})

describe('a truncated stream', () => {
  test('graceful_close: an ordinary end with stop_reason max_tokens', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const events = await collect(await edge.messages.create({ ...ASKED, stream: true }))
    expect(events.slice(-3)).toMatchObject([
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 11 } },
      { type: 'message_stop' },
    ])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test("graceful_close through the client's own stream helper", async () => {
    for (const include_partial_usage of [true, false]) {
      const { proxy, edge } = await twoWays(50, { ...TIGHT, streaming: { buffer_tokens: 1, include_partial_usage } })
      const message = await edge.messages.stream(ASKED).finalMessage()
      expect(message).toMatchObject({
        stop_reason: 'max_tokens',
        content: [{ type: 'text', text: 'the old fox saw the red hen sit far off ' }],
        usage: { input_tokens: 3, output_tokens: 11 },
      })
      expect(await proxy.spent()).toEqual(both(CHARGED))
    }
  })

  test('error_chunk: an APIError with our message', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT_ERROR)
    const failure = await edge.messages
      .stream(ASKED)
      .finalMessage()
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.APIError)
    expect(failure).toMatchObject({
      type: 'rate_limit_error',
      message: expect.stringContaining('max completion tokens exceeded'),
    })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })
})

describe('429', () => {
  test("is the client's RateLimitError", async () => {
    const { edge } = await limitedTo(600)
    const sdk = client(edge)
    await sdk.messages.create(ASKED)
    const failure = await sdk.messages.create({ ...ASKED, max_tokens: 595 }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.RateLimitError)
    expect(failure).toMatchObject({
      status: 429,
      type: 'rate_limit_error',
      message: expect.stringContaining('this request needs 598 tokens and 592 are available'),
      error: { type: 'error', error: { type: 'rate_limit_error', code: 'tpm_exceeded' } },
    })
    expect((failure as InstanceType<typeof Anthropic.APIError>).headers!.get('retry-after')).toBe('1')
  })

  test("the client's own retry waits for our Retry-After and then passes", async () => {
    const { edge, fake, clock, rejects } = await limitedTo(600)
    const sdk = client(edge, 5)
    await sdk.messages.create(ASKED)
    const answer = sdk.messages.create({ ...ASKED, max_tokens: 595 })
    await until(async () => (await rejects()) >= 1)
    clock.advance(1000)
    expect((await answer).content).toMatchObject([{ type: 'text', text: 'the old fox saw the ' }])
    expect(fake.requests.length).toBe(2)
  })

  test('the client does not come again with what can never pass', async () => {
    const { edge, fake, rejects } = await limitedTo(600)
    const failure = await client(edge, 5)
      .messages.create({ ...ASKED, max_tokens: 5000 })
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.RateLimitError)
    expect([await rejects(), fake.requests.length]).toEqual([1, 0])
  })
})

describe('an abort', () => {
  test('through the stream: what was seen is paid for, and the backend call ends', async () => {
    const fake = await fakeLlm({ tokens: 50, fail: 'stall', failAfterTokens: 3 })
    const proxy = await llmProxy(fake)
    const stream = await client(proxy).messages.create({ ...ASKED, stream: true })
    let deltas = 0
    for await (const event of stream) if (event.type === 'content_block_delta' && ++deltas === 3) stream.controller.abort()
    await until(() => fake.requests[0]!.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })

  test('before the answer: the prompt is paid for', async () => {
    const fake = await fakeLlm({ fail: 'stall' })
    const proxy = await llmProxy(fake)
    const abort = new AbortController()
    const failure = client(proxy)
      .messages.create(ASKED, { signal: abort.signal })
      .catch((error: unknown) => error)
    await until(() => fake.requests.length === 1)
    abort.abort()
    expect(await failure).toBeInstanceOf(Anthropic.APIUserAbortError)
    await until(() => fake.requests[0]!.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })
})
