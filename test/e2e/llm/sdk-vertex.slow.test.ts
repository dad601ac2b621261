import Anthropic from '@anthropic-ai/sdk'
import { AnthropicVertex } from '@anthropic-ai/vertex-sdk'
import { describe, expect, test } from 'vitest'
import { GOOGLE_AUTH } from '../../support/llm/google-auth.ts'
import { both, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import { CHARGED, clientsBothWays, collect, limitedTo, TEN_WORDS, TIGHT, TIGHT_ERROR } from '../../support/llm/sdk-proxy.ts'

const ASKED = { model: 'claude-x@20260101', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hello there!' }] }
const MODELS = '/v1/projects/p/locations/us-east5/publishers/anthropic/models'

function client({ port }: { readonly port: number }, maxRetries = 0): AnthropicVertex {
  const baseURL = `http://127.0.0.1:${port}/v1`
  return new AnthropicVertex({ baseURL, region: 'us-east5', projectId: 'p', authClient: GOOGLE_AUTH, maxRetries })
}

describe('the client of Anthropic in Vertex', () => {
  test('gets the same message as without us, whole and as a stream', async () => {
    const { proxy, fake, edge, direct } = await clientsBothWays(client, 5)
    const whole = await edge.messages.create(ASKED)
    expect(whole).toEqual(await direct.messages.create(ASKED))
    expect([whole.model, whole.stop_reason]).toEqual([ASKED.model, 'end_turn'])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
    const events = await collect(await edge.messages.create({ ...ASKED, stream: true }))
    expect(events).toEqual(await collect(await direct.messages.create({ ...ASKED, stream: true })))
    expect(events.at(-1)!.type).toBe('message_stop')
    expect(await edge.messages.stream(ASKED).finalMessage()).toEqual(await direct.messages.stream(ASKED).finalMessage())
    expect(await proxy.spent()).toEqual(both(3 * (HELLO_TOKENS + 5)))
    expect(await proxy.settlements()).toEqual({ done: 3 })
    const paths = [...new Set(fake.requests.map(({ url }) => url))]
    expect(paths).toEqual([`${MODELS}/${ASKED.model}:rawPredict`, `${MODELS}/${ASKED.model}:streamRawPredict`])
  })

  test('graceful_close: an ordinary end with stop_reason max_tokens', async () => {
    const { proxy, edge } = await clientsBothWays(client, 50, TIGHT)
    expect(await edge.messages.stream(ASKED).finalMessage()).toMatchObject({
      stop_reason: 'max_tokens',
      content: [{ type: 'text', text: TEN_WORDS }],
      usage: { input_tokens: 3, output_tokens: 11 },
    })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('error_chunk: an APIError with our message', async () => {
    const { proxy, edge } = await clientsBothWays(client, 50, TIGHT_ERROR)
    const failure = await edge.messages
      .stream(ASKED)
      .finalMessage()
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.APIError)
    expect(failure).toMatchObject({ type: 'rate_limit_error', message: expect.stringContaining('max completion tokens exceeded') })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test("a 429 is the client's RateLimitError", async () => {
    const { edge, fake } = await limitedTo(600)
    const sdk = client(edge)
    await sdk.messages.create(ASKED)
    for (const stream of [false, true] as const) {
      const failure = await sdk.messages.create({ ...ASKED, max_tokens: 595, stream }).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(Anthropic.RateLimitError)
      expect(failure).toMatchObject({
        status: 429,
        type: 'rate_limit_error',
        message: expect.stringContaining('this request needs 598 tokens and 592 are available'),
      })
    }
    expect(fake.requests.length).toBe(1)
  })

  test('counting tokens costs none', async () => {
    const { proxy, fake, edge } = await clientsBothWays(client, 5)
    const { model, messages } = ASKED
    expect(await edge.messages.countTokens({ model, messages })).toEqual({ input_tokens: HELLO_TOKENS })
    expect(fake.requests[0]!.url).toBe(`${MODELS}/count-tokens:rawPredict`)
    expect(await proxy.spent()).toEqual(both(0))
  })
})
