import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { both, fakeLlm, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { CHAT, client, twoWays } from '../../support/llm/openai-client.ts'
import { CHARGED, collect, limitedTo, TEN_WORDS, TIGHT, TIGHT_ERROR } from '../../support/llm/sdk-proxy.ts'
import { until } from '../../support/until.ts'

describe('the client gets what it would get without us', () => {
  test('chat as a stream with usage asked for', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const asked = { ...CHAT, stream: true as const, stream_options: { include_usage: true } }
    const ours = await collect(await edge.chat.completions.create(asked))
    const theirs = await collect(await direct.chat.completions.create(asked))
    expect(ours.at(-1)).toEqual(theirs.at(-1))
    expect(ours.length).toBe(theirs.length)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test("chat through the client's own stream helper", async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const ours = await edge.chat.completions.stream(CHAT).finalChatCompletion()
    const theirs = await direct.chat.completions.stream(CHAT).finalChatCompletion()
    expect(ours.choices).toEqual(theirs.choices)
    expect(ours.choices[0]!.message.content).toBe('the old fox saw the ')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test('several choices', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const asked = { ...CHAT, n: 3, max_tokens: 5 }
    expect(await edge.chat.completions.create(asked)).toEqual(await direct.chat.completions.create(asked))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 15))
  })

  test('completions, whole and as a stream', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const asked = { model: 'm', prompt: 'hello there!' }
    expect(await edge.completions.create(asked)).toEqual(await direct.completions.create(asked))
    const ours = await collect(await edge.completions.create({ ...asked, stream: true }))
    const theirs = await collect(await direct.completions.create({ ...asked, stream: true }))
    expect(ours.map(({ usage: _, ...chunk }) => chunk)).toEqual(theirs)
    expect(await proxy.spent()).toEqual(both(2 * (HELLO_TOKENS + 5)))
  })

  test('embeddings', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const asked = { model: 'm', input: ['hello ', 'there!'] }
    expect(await edge.embeddings.create(asked)).toEqual(await direct.embeddings.create(asked))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })

  test('Responses, whole and as a stream', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const asked = { model: 'm', input: 'hello there!' }
    const [ours, theirs] = [await edge.responses.create(asked), await direct.responses.create(asked)]
    expect([ours, ours.output_text]).toEqual([theirs, 'the old fox saw the '])
    const events = await collect(await edge.responses.create({ ...asked, stream: true }))
    expect(events).toEqual(await collect(await direct.responses.create({ ...asked, stream: true })))
    expect(events.at(-1)!.type).toBe('response.completed')
    expect((await edge.responses.stream(asked).finalResponse()).output_text).toBe('the old fox saw the ')
    expect(await proxy.spent()).toEqual(both(3 * (HELLO_TOKENS + 5)))
  })

  test('the list of models', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    expect((await edge.models.list()).data).toEqual((await direct.models.list()).data)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('an error of the backend', async () => {
    const fake = await fakeLlm({ fail: 'status' })
    const proxy = await llmProxy(fake)
    const failure = async (sdk: OpenAI) => sdk.chat.completions.create(CHAT).catch((error: unknown) => error)
    const ours = (await failure(client(proxy))) as InstanceType<typeof OpenAI.APIError>
    expect(ours).toBeInstanceOf(OpenAI.InternalServerError)
    expect(ours.message).toBe(((await failure(client(fake))) as Error).message)
    expect(await proxy.spent()).toEqual(both(0))
  })
})

describe('a truncated stream', () => {
  test("graceful_close through the client's own stream helper, which is strict about chunks", async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const stream = edge.chat.completions.stream({ ...CHAT, n: 2 })
    // It says itself that an answer was cut by its length.
    const chunks = await collect(stream).catch((error: unknown) => error)
    expect(chunks).not.toBeInstanceOf(OpenAI.APIError)
    const { choices } = stream.currentChatCompletionSnapshot ?? (await stream.finalChatCompletion())
    expect(choices.map(({ finish_reason }) => finish_reason)).toEqual(['length', 'length'])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('error_chunk: an APIError with our message, code and type, after what came before', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT_ERROR)
    let text = ''
    const failure = await (async () => {
      for await (const { choices } of await edge.chat.completions.create({ ...CHAT, stream: true })) text += choices[0]!.delta.content ?? ''
      return undefined
    })().catch((error: unknown) => error)
    expect(text).toBe('the old fox saw the red hen sit far off ')
    expect(failure).toBeInstanceOf(OpenAI.APIError)
    expect(failure).toMatchObject({
      message: expect.stringContaining('max completion tokens exceeded'),
      code: 'completion_tokens_exceeded',
      type: 'rate_limit_error',
    })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('completions', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const chunks = await collect(await edge.completions.create({ model: 'm', prompt: 'hello there!', stream: true }))
    expect(chunks.at(-1)!.choices[0]).toMatchObject({ index: 0, text: '', finish_reason: 'length' })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('Responses, graceful_close: response.incomplete', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const events = await collect(await edge.responses.create({ model: 'm', input: 'hello there!', stream: true }))
    expect(events.at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, usage: { output_tokens: 11 } },
    })
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i))
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test("Responses through the client's own stream helper", async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const response = await edge.responses.stream({ model: 'm', input: 'hello there!' }).finalResponse()
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    expect(response.output_text).toBe(TEN_WORDS)
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('Responses, error_chunk: an error event', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT_ERROR)
    const events = await collect(await edge.responses.create({ model: 'm', input: 'hello there!', stream: true }))
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      code: 'completion_tokens_exceeded',
      message: 'max completion tokens exceeded',
    })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })
})

describe('429', () => {
  test("the client's own retry waits for our Retry-After and then passes", async () => {
    const { edge, fake, clock, rejects } = await limitedTo(600)
    const sdk = client(edge, 5)
    await sdk.chat.completions.create({ ...CHAT, max_tokens: 500 })
    const answer = sdk.chat.completions.create({ ...CHAT, max_tokens: 595 })
    await until(async () => (await rejects()) >= 1)
    clock.advance(1000)
    expect((await answer).choices[0]!.message.content).toBe('the old fox saw the ')
    expect(fake.requests.length).toBe(2)
  })

  test('six requests share the last money of a day: all pass when those before them give back what they did not use', async () => {
    const proxy = await moneyProxy(await fakeLlm({ tokens: 5 }), { budget: 3 })
    const sdk = client(proxy, 10)
    // It may cost 2.09 and costs 0.13.
    const ask = () => sdk.chat.completions.create({ ...CHAT, model: 'big', max_tokens: 100 })
    await ask()
    const answers = await Promise.all(Array.from({ length: 6 }, ask))
    expect(answers.map(({ choices }) => choices[0]!.message.content)).toEqual(Array(6).fill('the old fox saw the '))
  })

  test('the client does not come again with what can never pass', async () => {
    const { edge, fake, rejects } = await limitedTo(600)
    const failure = await client(edge, 5)
      .chat.completions.create({ ...CHAT, max_tokens: 5000 })
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError)
    expect((failure as InstanceType<typeof OpenAI.APIError>).headers!.get('x-should-retry')).toBe('false')
    expect([await rejects(), fake.requests.length]).toEqual([1, 0])
  })
})

describe('an abort', () => {
  test('through the stream: what was seen is paid for, and the backend call ends', async () => {
    const fake = await fakeLlm({ tokens: 50, fail: 'stall', failAfterTokens: 3 })
    const proxy = await llmProxy(fake)
    const stream = await client(proxy).chat.completions.create({ ...CHAT, stream: true })
    let seen = 0
    for await (const { usage } of stream) {
      seen = usage!.completion_tokens
      if (seen === 3) stream.controller.abort()
    }
    await until(() => fake.requests[0]!.isAborted)
    expect([seen, await proxy.spent()]).toEqual([3, both(HELLO_TOKENS + 3)])
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })

  test('by leaving the loop', async () => {
    const fake = await fakeLlm({ tokens: 50, fail: 'stall', failAfterTokens: 3 })
    const proxy = await llmProxy(fake)
    for await (const { usage } of await client(proxy).chat.completions.create({ ...CHAT, stream: true })) {
      if (usage!.completion_tokens === 3) break
    }
    await until(() => fake.requests[0]!.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
  })

  test('before the answer: the prompt is paid for', async () => {
    const fake = await fakeLlm({ fail: 'stall' })
    const proxy = await llmProxy(fake)
    const abort = new AbortController()
    const failure = client(proxy)
      .chat.completions.create(CHAT, { signal: abort.signal })
      .catch((error: unknown) => error)
    await until(() => fake.requests.length === 1)
    abort.abort()
    expect(await failure).toBeInstanceOf(OpenAI.APIUserAbortError)
    await until(() => fake.requests[0]!.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })

  test('a backend that breaks off is an error of the client, and costs what was seen', async () => {
    const proxy = await llmProxy(await fakeLlm({ tokens: 50, fail: 'reset', failAfterTokens: 3 }))
    const failure = await (async () => collect(await client(proxy).chat.completions.create({ ...CHAT, stream: true })))().catch(
      (error: unknown) => error,
    )
    expect(failure).toBeInstanceOf(Error)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
  })
})
