import { APIError, AzureOpenAI, RateLimitError } from 'openai'
import { describe, expect, test } from 'vitest'
import { both, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import { CHAT } from '../../support/llm/openai-client.ts'
import { CHARGED, clientsBothWays, collect, limitedTo, TEN_WORDS, TIGHT, TIGHT_ERROR, untilFailure } from '../../support/llm/sdk-proxy.ts'

const QUERY = '?api-version=2025-04-01-preview'
const STREAM = { ...CHAT, stream: true as const }

function client({ port }: { readonly port: number }, maxRetries = 0): AzureOpenAI {
  const endpoint = `http://127.0.0.1:${port}`
  return new AzureOpenAI({ endpoint, apiKey: 'key-test', apiVersion: '2025-04-01-preview', deployment: 'my-gpt', maxRetries })
}

describe("Azure's client of OpenAI", () => {
  test('gets the same chat as without us, and as a stream usage besides', async () => {
    const { proxy, fake, edge, direct } = await clientsBothWays(client, 5)
    const whole = await edge.chat.completions.create(CHAT)
    expect(whole).toEqual(await direct.chat.completions.create(CHAT))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
    const ours = await collect(await edge.chat.completions.create(STREAM))
    expect(ours.map(({ usage: _, ...chunk }) => chunk)).toEqual(await collect(await direct.chat.completions.create(STREAM)))
    expect(ours.at(-1)!.usage).toEqual({ prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 })
    expect(await proxy.spent()).toEqual(both(2 * (HELLO_TOKENS + 5)))
    expect(await proxy.settlements()).toEqual({ done: 2 })
    expect([...new Set(fake.requests.map(({ url }) => url))]).toEqual([`/openai/deployments/my-gpt/chat/completions${QUERY}`])
  })

  test('ask_usage: the count is asked for and kept from the client, who still gets the results of the filter', async () => {
    const streaming = { ask_usage: true, include_partial_usage: false }
    const { proxy, fake, edge, direct } = await clientsBothWays(client, 5, { streaming })
    const ours = await collect(await edge.chat.completions.create(STREAM))
    expect(ours.map(({ usage: _, ...chunk }) => chunk)).toEqual(await collect(await direct.chat.completions.create(STREAM)))
    expect(ours[0]).toMatchObject({ choices: [], prompt_filter_results: [{ prompt_index: 0 }] })
    expect(JSON.parse(fake.requests[0]!.body.toString())).toMatchObject({ stream_options: { include_usage: true } })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
  })

  test('graceful_close: an ordinary end with finish_reason length', async () => {
    const { proxy, edge } = await clientsBothWays(client, 50, TIGHT)
    const chunks = await collect(await edge.chat.completions.create(STREAM))
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(TEN_WORDS)
    const { id, model, choices, usage } = chunks.at(-1)!
    expect([id, model, choices[0]!.finish_reason, usage!.completion_tokens]).toEqual(['chatcmpl-fake', 'my-gpt', 'length', 11])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('error_chunk: an APIError with our message, code and type, after what came before', async () => {
    const { proxy, edge } = await clientsBothWays(client, 50, TIGHT_ERROR)
    const { items, failure } = await untilFailure(await edge.chat.completions.create(STREAM))
    expect(items.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(TEN_WORDS)
    expect(failure).toBeInstanceOf(APIError)
    expect(failure).toMatchObject({
      message: expect.stringContaining('max completion tokens exceeded'),
      code: 'completion_tokens_exceeded',
      type: 'rate_limit_error',
    })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test("a 429 is the client's RateLimitError", async () => {
    const { edge, fake } = await limitedTo(600)
    const sdk = client(edge)
    await sdk.chat.completions.create({ ...CHAT, max_tokens: 500 })
    for (const stream of [false, true] as const) {
      const failure = await sdk.chat.completions.create({ ...CHAT, max_tokens: 595, stream }).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(RateLimitError)
      expect(failure).toMatchObject({ status: 429, code: 'tpm_exceeded', type: 'rate_limit_error' })
    }
    expect(fake.requests.length).toBe(1)
  })

  test('embeddings cost their text, and Responses are counted too', async () => {
    const { proxy, edge, direct } = await clientsBothWays(client, 5)
    const embedded = { model: 'm', input: ['hello ', 'there!'] }
    expect(await edge.embeddings.create(embedded)).toEqual(await direct.embeddings.create(embedded))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
    const asked = { model: 'm', input: 'hello there!' }
    expect(await edge.responses.create(asked)).toEqual(await direct.responses.create(asked))
    expect(await proxy.spent()).toEqual(both(2 * HELLO_TOKENS + 5))
  })
})
