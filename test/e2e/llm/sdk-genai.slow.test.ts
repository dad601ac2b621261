import { ApiError, type GenerateContentResponse, GoogleGenAI } from '@google/genai'
import { describe, expect, test } from 'vitest'
import { GOOGLE_AUTH } from '../../support/llm/google-auth.ts'
import { both, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import { CHARGED, clientsBothWays, collect, limitedTo, TEN_WORDS, TIGHT, TIGHT_ERROR, untilFailure } from '../../support/llm/sdk-proxy.ts'

const ASKED = { model: 'gemini-x', contents: 'hello there!' }

function studio({ port }: { readonly port: number }): GoogleGenAI {
  return new GoogleGenAI({ vertexai: false, apiKey: 'key-test', httpOptions: { baseUrl: `http://127.0.0.1:${port}` } })
}

function vertex({ port }: { readonly port: number }): GoogleGenAI {
  const httpOptions = { baseUrl: `http://127.0.0.1:${port}` }
  return new GoogleGenAI({
    vertexai: true,
    project: 'p',
    location: 'us-east5',
    googleAuthOptions: { authClient: GOOGLE_AUTH },
    httpOptions,
  })
}

/** The fields of the response beside it, which differ in dates and limits. */
function bodies(responses: readonly { sdkHttpResponse?: unknown }[]): object[] {
  return responses.map(({ sdkHttpResponse: _, ...body }) => body)
}

function textOf(responses: readonly GenerateContentResponse[]): string {
  return responses.map(({ text }) => text ?? '').join('')
}

describe.each([
  ['AI Studio', studio, '/v1beta/models/gemini-x'],
  ['Vertex', vertex, '/v1beta1/projects/p/locations/us-east5/publishers/google/models/gemini-x'],
])('the client of Google in %s', (_where, clientOf, path) => {
  test('gets the same response as without us, whole and as a stream', async () => {
    const { proxy, fake, edge, direct } = await clientsBothWays(clientOf, 5)
    const whole = await edge.models.generateContent(ASKED)
    expect(bodies([whole])).toEqual(bodies([await direct.models.generateContent(ASKED)]))
    expect([whole.text, whole.candidates![0]!.finishReason, whole.usageMetadata!.totalTokenCount]).toEqual([
      'the old fox saw the ',
      'STOP',
      8,
    ])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
    const events = await collect(await edge.models.generateContentStream(ASKED))
    expect(bodies(events)).toEqual(bodies(await collect(await direct.models.generateContentStream(ASKED))))
    expect([textOf(events), events.at(-1)!.candidates![0]!.finishReason]).toEqual(['the old fox saw the ', 'STOP'])
    expect(await proxy.spent()).toEqual(both(2 * (HELLO_TOKENS + 5)))
    expect(await proxy.settlements()).toEqual({ done: 2 })
    expect([...new Set(fake.requests.map(({ url }) => url))]).toEqual([`${path}:generateContent`, `${path}:streamGenerateContent?alt=sse`])
  })

  test('graceful_close: an ordinary end with finishReason MAX_TOKENS', async () => {
    const { proxy, edge } = await clientsBothWays(clientOf, 50, TIGHT)
    const events = await collect(await edge.models.generateContentStream(ASKED))
    const { candidates, usageMetadata, modelVersion } = events.at(-1)!
    expect([textOf(events), candidates![0]!.finishReason, modelVersion]).toEqual([TEN_WORDS, 'MAX_TOKENS', 'gemini-x'])
    expect(usageMetadata).toEqual({ promptTokenCount: 3, candidatesTokenCount: 11, totalTokenCount: 14 })
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('error_chunk: an ApiError of 429, after what came before', async () => {
    const { proxy, edge } = await clientsBothWays(clientOf, 50, TIGHT_ERROR)
    const { items, failure } = await untilFailure(await edge.models.generateContentStream(ASKED))
    expect(textOf(items)).toBe(TEN_WORDS)
    expect(failure).toBeInstanceOf(ApiError)
    expect(failure).toMatchObject({ status: 429, message: expect.stringContaining('RESOURCE_EXHAUSTED') })
    expect((failure as ApiError).message).toContain('max completion tokens exceeded')
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('a 429 is its ApiError, with our message', async () => {
    const { edge, fake } = await limitedTo(600)
    const { models } = clientOf(edge)
    await models.generateContent({ ...ASKED, config: { maxOutputTokens: 500 } })
    const asked = { ...ASKED, config: { maxOutputTokens: 595 } }
    for (const ask of [() => models.generateContent(asked), () => models.generateContentStream(asked)]) {
      const failure = await ask().catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(ApiError)
      expect((failure as ApiError).status).toBe(429)
      expect(JSON.parse((failure as ApiError).message)).toMatchObject({
        error: {
          code: 429,
          status: 'RESOURCE_EXHAUSTED',
          message: expect.stringContaining('this request needs 598 tokens and 592 are available'),
          details: [{ reason: 'TPM_EXCEEDED' }, { retryDelay: expect.stringMatching(/^\d+s$/) }],
        },
      })
    }
    expect(fake.requests.length).toBe(1)
  })

  test('counting tokens costs none', async () => {
    const { proxy, edge } = await clientsBothWays(clientOf, 5)
    expect((await edge.models.countTokens(ASKED)).totalTokens).toBe(HELLO_TOKENS)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('embeddings cost their text', async () => {
    const { proxy, edge, direct } = await clientsBothWays(clientOf, 5)
    const ours = await edge.models.embedContent(ASKED)
    expect(ours.embeddings![0]!.values).toHaveLength(8)
    expect(bodies([ours])).toEqual(bodies([await direct.models.embedContent(ASKED)]))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })

  test('a conversation goes on after a stream that was cut', async () => {
    const { proxy, edge } = await clientsBothWays(clientOf, 50, TIGHT)
    const chat = edge.chats.create({ model: 'gemini-x' })
    await collect(await chat.sendMessageStream({ message: 'hello there!' }))
    expect(await proxy.spent()).toEqual(both(CHARGED))
    const events = await collect(await chat.sendMessageStream({ message: 'hello there!' }))
    expect(events.at(-1)!.candidates![0]!.finishReason).toBe('MAX_TOKENS')
    // The conversation so far is the prompt: what the client asked twice, and the ten tokens that it has seen.
    expect(await proxy.spent()).toEqual(both(CHARGED + HELLO_TOKENS + 10 + CHARGED))
  })
})
