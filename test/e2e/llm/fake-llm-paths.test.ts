import { describe, expect, test } from 'vitest'
import { dataOf, fake, HELLO, HELLO_TOKENS, post, send, stream } from '../../support/llm/fake-llm-client.ts'

const MODEL = '/v1beta/models/gemini-x'
const CONTENTS = { contents: [{ role: 'user', parts: [{ text: 'hello there' }] }] }
const USAGE = { promptTokenCount: HELLO_TOKENS, promptTokensDetails: [{ modality: 'TEXT', tokenCount: HELLO_TOKENS }] }

/** A response as Google writes it. */
function said(text: string, tokens: number, finishReason?: string, index = 0): object {
  return {
    candidates: [{ content: { parts: [{ text }], role: 'model' }, ...(finishReason && { finishReason }), index }],
    usageMetadata: { ...USAGE, candidatesTokenCount: tokens, totalTokenCount: HELLO_TOKENS + tokens },
    modelVersion: 'gemini-x',
    responseId: 'response-fake',
  }
}

const STREAM = [said('the ', 1), said('old ', 2), said('', 2, 'STOP')]

describe('Gemini', () => {
  test.each([
    `${MODEL}:generateContent`,
    `${MODEL}%3AgenerateContent`,
    `${MODEL}%3agenerateContent?key=k`,
    '/v1beta/tunedModels/gemini-x:generateContent',
    '/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent',
    '/v1/projects/p/locations/l/endpoints/gemini-x:generateContent',
  ])('in one piece: %s', async (path) => {
    const { port } = await fake({ tokens: 2 })
    expect(await post(port, path, { ...CONTENTS, model: 'another', stream: true })).toEqual(said('the old ', 2, 'STOP'))
  })

  test.each(['alt=sse', 'key=k&$alt=sse', '%24alt=sse'])('as a stream of events: %s', async (query) => {
    const { port } = await fake({ tokens: 2 })
    expect(dataOf(await stream(port, `${MODEL}:streamGenerateContent?${query}`, CONTENTS))).toEqual(STREAM)
  })

  test.each([{}, { chunkBytes: 5 }, { isGzip: true }])('as a list: %j', async (options) => {
    const { port } = await fake({ tokens: 2, ...options })
    const response = await send(port, `${MODEL}:streamGenerateContent`, CONTENTS)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.json()).toEqual(STREAM)
  })

  test.each([
    { systemInstruction: { parts: [{ text: '5678' }] }, generationConfig: { maxOutputTokens: 1, candidateCount: 2 } },
    { system_instruction: { parts: { text: '5678' } }, generation_config: { max_output_tokens: '1', candidate_count: '2' } },
  ])('a bound and several candidates, in both spellings: %j', async (asked) => {
    const { port } = await fake({ tokens: 5, cachedTokens: 2 })
    const usageMetadata = { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6, cachedContentTokenCount: 2 }
    expect(await post(port, `${MODEL}:generateContent`, { ...CONTENTS, ...asked })).toMatchObject({
      candidates: [
        { content: { parts: [{ text: 'the ' }] }, finishReason: 'MAX_TOKENS', index: 0 },
        { content: { parts: [{ text: 'old ' }] }, finishReason: 'MAX_TOKENS', index: 1 },
      ],
      usageMetadata,
    })
    const events = dataOf(await stream(port, `${MODEL}:streamGenerateContent?alt=sse`, { ...CONTENTS, ...asked }))
    expect(events).toMatchObject([
      { candidates: [{ content: { parts: [{ text: 'the ' }] }, index: 0 }], usageMetadata: { candidatesTokenCount: 1 } },
      { candidates: [{ content: { parts: [{ text: 'old ' }] }, index: 1 }], usageMetadata: { candidatesTokenCount: 2 } },
      { candidates: [0, 1].map((index) => ({ finishReason: 'MAX_TOKENS', index })), usageMetadata },
    ])
  })

  test('counts tokens, of a prompt and of a whole request', async () => {
    const { port } = await fake()
    const counted = { totalTokens: HELLO_TOKENS, promptTokensDetails: USAGE.promptTokensDetails }
    expect(await post(port, `${MODEL}:countTokens`, CONTENTS)).toEqual(counted)
    expect(await post(port, `${MODEL}:countTokens`, { generateContentRequest: { model: 'models/gemini-x', ...CONTENTS } })).toEqual(counted)
  })

  test('embeds one content, or each of several', async () => {
    const { port } = await fake()
    const content = { parts: [{ text: 'one' }] }
    const { embedding } = await post<{ embedding: { values: number[] } }>(port, `${MODEL}:embedContent`, { content })
    expect(Math.hypot(...embedding.values)).toBeCloseTo(1)
    const requests = [{ content }, { content: { parts: [{ text: 'two' }] }, outputDimensionality: 5 }]
    const { embeddings } = await post<{ embeddings: { values: number[] }[] }>(port, `${MODEL}:batchEmbedContents`, { requests })
    expect(embeddings[0]).toEqual(embedding)
    expect(embeddings[1]!.values).toHaveLength(5)
  })

  test('no usage anywhere when there is to be none', async () => {
    const { port } = await fake({ hasUsage: false })
    for (const method of ['generateContent', 'streamGenerateContent', 'streamGenerateContent?alt=sse']) {
      expect(await (await send(port, `${MODEL}:${method}`, CONTENTS)).text()).not.toContain('usage')
    }
  })

  test("fails in Google's words", async () => {
    const llm = await fake({ tokens: 9, fail: 'error-event', failAfterTokens: 2 })
    const failure = { error: { code: 500, message: expect.any(String), status: 'INTERNAL' } }
    expect(dataOf(await stream(llm.port, `${MODEL}:streamGenerateContent?alt=sse`, CONTENTS))).toEqual([...STREAM.slice(0, 2), failure])
    expect(await (await send(llm.port, `${MODEL}:streamGenerateContent`, CONTENTS)).json()).toEqual([...STREAM.slice(0, 2), failure])
    const whole = await send(llm.port, `${MODEL}:generateContent`, CONTENTS)
    expect([whole.status, await whole.json()]).toEqual([500, failure])
    const bad = await fetch(`http://127.0.0.1:${llm.port}${MODEL}:generateContent`, { method: 'POST', body: '[]' })
    expect([bad.status, await bad.json()]).toMatchObject([400, { error: { code: 400, status: 'INVALID_ARGUMENT' } }])
  })

  test.each([`${MODEL}:predict`, '/v1beta/gemini-x:generateContent', MODEL])('has no endpoint at %s', async (path) => {
    const { port } = await fake()
    expect((await send(port, path, CONTENTS)).status).toBe(404)
  })
})

describe('Anthropic in Vertex', () => {
  const VERTEX = '/v1/projects/p/locations/l/publishers/anthropic/models'
  const ASKED = { messages: HELLO, max_tokens: 9, anthropic_version: 'vertex-2023-10-16' }

  test('responds like Anthropic, with the model of the path, as a stream where the path says so', async () => {
    const { port } = await fake({ tokens: 2 })
    const direct = { ...ASKED, model: 'claude-x@20260101' }
    for (const colon of [':', '%3A']) {
      const model = `${VERTEX}/claude-x@20260101${colon}`
      expect(await post(port, `${model}rawPredict`, ASKED)).toEqual(await post(port, '/v1/messages', direct))
      expect(await stream(port, `${model}streamRawPredict`, ASKED)).toEqual(await stream(port, '/v1/messages', direct))
    }
  })

  test('counts tokens, like Anthropic itself', async () => {
    const { port } = await fake()
    for (const path of [`${VERTEX}/count-tokens:rawPredict`, '/v1/messages/count_tokens']) {
      expect(await post(port, path, { ...ASKED, model: 'claude-x' })).toEqual({ input_tokens: HELLO_TOKENS })
    }
  })

  test.each(['generateContent', 'predict'])('has no %s', async (method) => {
    const { port } = await fake()
    expect((await send(port, `${VERTEX}/claude-x:${method}`, ASKED)).status).toBe(404)
  })
})

describe('Azure', () => {
  const DEPLOYMENT = '/openai/deployments/my%20gpt'
  const QUERY = '?api-version=2025-01-01'

  test.each([
    ['/chat/completions', { messages: HELLO, stream_options: { include_usage: true } }],
    ['/completions', { prompt: 'hello there' }],
  ])('%s responds like OpenAI, and says first what its filter made of the prompt', async (path, asked) => {
    const { port } = await fake({ tokens: 2 })
    const direct = { ...asked, model: 'my gpt' }
    const { prompt_filter_results, ...whole } = await post<Record<string, unknown>>(port, `${DEPLOYMENT}${path}${QUERY}`, asked)
    expect(prompt_filter_results).toMatchObject([{ prompt_index: 0 }])
    expect(whole).toEqual(await post(port, `/v1${path}`, direct))
    const [first, ...rest] = await stream(port, `${DEPLOYMENT}${path}${QUERY}`, { ...asked, model: 'another' })
    expect(first!.data).toMatchObject({ id: '', model: '', choices: [], prompt_filter_results })
    expect(rest).toEqual(await stream(port, `/v1${path}`, direct))
  })

  test('embeddings and Responses are as those of OpenAI', async () => {
    const { port } = await fake()
    const [embedded, asked] = [{ input: 'one' }, { input: 'one', model: 'my gpt' }]
    expect(await post(port, `${DEPLOYMENT}/embeddings${QUERY}`, embedded)).toEqual(await post(port, '/v1/embeddings', asked))
    for (const path of ['/openai/responses', '/openai/v1/responses']) {
      expect(await post(port, path + QUERY, asked)).toEqual(await post(port, '/v1/responses', asked))
    }
    expect((await send(port, `${DEPLOYMENT}/messages${QUERY}`, asked)).status).toBe(404)
  })
})
