import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { both, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import { CHAT, client, twoWays } from '../../support/llm/openai-client.ts'
import { CHARGED, collect, limitedTo, TIGHT, untilFailure } from '../../support/llm/sdk-proxy.ts'

describe('the client gets what it would get without us', () => {
  test('chat', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    expect(await edge.chat.completions.create(CHAT)).toEqual(await direct.chat.completions.create(CHAT))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test('chat as a stream: usage is added, and nothing else', async () => {
    const { proxy, edge, direct } = await twoWays(5)
    const [ours, theirs] = await Promise.all(
      [edge, direct].map(async (sdk) => collect(await sdk.chat.completions.create({ ...CHAT, stream: true }))),
    )
    expect(ours!.map(({ usage: _, ...chunk }) => chunk)).toEqual(theirs)
    expect(ours!.at(-1)!.usage).toEqual({ prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })
})

describe('a truncated stream', () => {
  test('graceful_close: an ordinary end with finish_reason length', async () => {
    const { proxy, edge } = await twoWays(50, TIGHT)
    const chunks = await collect(await edge.chat.completions.create({ ...CHAT, stream: true }))
    const last = chunks.at(-1)!
    expect([last.id, last.object, last.model]).toEqual(['chatcmpl-fake', 'chat.completion.chunk', 'm'])
    expect([last.choices, last.usage]).toEqual([
      [{ index: 0, delta: {}, finish_reason: 'length' }],
      { prompt_tokens: 3, completion_tokens: 11, total_tokens: 14 },
    ])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('where the budget ends: as at a limit of the model, or with an APIError that has the code of the budget', async () => {
    const growing = { dayTokens: 200, config: { reserve: { first: 100, step: 100 } } }
    const { edge } = await twoWays(500, growing)
    const chunks = await collect(await edge.chat.completions.create({ ...CHAT, stream: true }))
    expect(chunks.at(-1)!.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'length' }])
    const failing = await twoWays(500, { ...growing, streaming: { on_limit_exceeded: 'error_chunk' } })
    const { failure } = await untilFailure(await failing.edge.chat.completions.create({ ...CHAT, stream: true }))
    expect(failure).toBeInstanceOf(OpenAI.APIError)
    expect(failure).toMatchObject({ code: 'tpd_exceeded', type: 'rate_limit_error' })
  })
})

describe('429', () => {
  test("is the client's RateLimitError, with our code and message", async () => {
    const { edge, fake } = await limitedTo(600)
    const sdk = client(edge)
    await sdk.chat.completions.create({ ...CHAT, max_tokens: 500 })
    for (const stream of [false, true] as const) {
      const failure = await sdk.chat.completions.create({ ...CHAT, max_tokens: 595, stream }).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(OpenAI.RateLimitError)
      expect(failure).toMatchObject({
        status: 429,
        code: 'tpm_exceeded',
        type: 'rate_limit_error',
        message: expect.stringContaining('this request needs 598 tokens and 592 are available'),
      })
      expect((failure as InstanceType<typeof OpenAI.APIError>).headers!.get('retry-after')).toBe('1')
    }
    expect(fake.requests.length).toBe(1)
  })
})
