import { describe, expect, test } from 'vitest'
import { type LlmProxyOptions, llmProxy } from '../../support/llm/llm-proxy.ts'
import { parseSse, sse } from '../../support/llm/llm-streams.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

const MODEL = '/v1beta/models/gemini-2.5-pro'
const HELLO = { contents: [{ role: 'user', parts: [{ text: 'hello there!' }] }] }
const ASKED = { ...HELLO, generationConfig: { maxOutputTokens: '50', candidateCount: 2 } }
const both = (tokens: number) => ({ minute: tokens, day: tokens })

const said = (text: string, more: object = {}) => ({
  candidates: [{ content: { parts: [{ text }], role: 'model' }, ...more }],
  modelVersion: 'gemini-2.5-pro-001',
})
const USAGE = { promptTokenCount: 20, cachedContentTokenCount: 8, candidatesTokenCount: 6, thoughtsTokenCount: 30, totalTokenCount: 56 }
const EVENTS = [...Array.from({ length: 40 }, () => said('abcd')), { ...said('', { finishReason: 'STOP' }), usageMetadata: USAGE }]

/** A backend that streams as Google does: events with `alt=sse`, else a list. */
function google(): ReturnType<typeof scriptedLlm> {
  return scriptedLlm(async (call) => {
    if (/[?&](?:\$|%24)?alt=sse/.test(call.req.url!)) {
      call.begin()
      await call.writeInPieces(EVENTS.map((event) => sse(event)).join(''), 37)
      call.end()
    } else call.answer(200, EVENTS)
  })
}

async function streamed(query: string, options: LlmProxyOptions = {}) {
  const proxy = await llmProxy(await google(), options)
  const client = await proxy.open(`${MODEL}:streamGenerateContent${query}`, HELLO).untilClosed()
  return { client, spent: await proxy.spent(), settlements: await proxy.settlements() }
}

describe('a request of Gemini', () => {
  test('reserves its contents and its bound for each candidate, and is charged what its usage says', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const answer = proxy.post(`${MODEL}:generateContent`, ASKED)
    const call = await backend.next()
    expect(await proxy.held()).toEqual(both(3 + 100))
    call.answer(200, { ...said('abcd', { finishReason: 'STOP' }), usageMetadata: USAGE })
    expect((await answer).status).toBe(200)
    expect(await proxy.spent()).toEqual(both(56))
  })

  test('costs what its text is worth where usage is missing', async () => {
    const proxy = await llmProxy(await answeringLlm(200, said('x'.repeat(40))))
    await proxy.post(`${MODEL}%3AgenerateContent`, ASKED)
    expect(await proxy.spent()).toEqual(both(3 + 10))
  })

  test.each([
    ['?fields=candidates', []],
    ['/?fields=candidates', []],
    ['?%24httpHeaders=X-Goog-FieldMask%3Acandidates', []],
    ['?x=1&%24fields=usageMetadata.candidatesTokenCount', []],
    ['?fields=usageMetadata&fields=candidates', []],
    ['?fields=candidates(content,usageMetadata,index)', []],
    ['?fields=usageMetadata&$fields=candidates', []],
    ['?alt=proto', []],
    ['?$alt=media', []],
    ['?alt=json&alt=json', []],
    ['?alt=json&%61lt=proto', []],
    ['?alt=json&%24alt=proto', []],
    ['?key=k&key=l&alt=SSE', []],
    ['?%24%66ields=candidates&fields=usageMetadata', []],
    ['?callback=f', []],
    ['', [['X-Goog-FieldMask', 'candidates']]],
  ] as const)('is refused where its response could lack counts: %s %j', async (query, fields) => {
    const proxy = await llmProxy(await answeringLlm(200, said('abcd')))
    const answer = await proxy.post(`${MODEL}:generateContent${query}`, ASKED, fields)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([400, 'bad_request'])
    expect(await proxy.spent()).toEqual(both(0))
  })

  test.each([['?fields=candidates,usageMetadata'], ['?$fields=*'], ['?alt=json']])(
    'may choose its fields with all counts: %s',
    async (query) => {
      const proxy = await llmProxy(await answeringLlm(200, { ...said('abcd'), usageMetadata: USAGE }))
      expect((await proxy.post(`${MODEL}:generateContent${query}`, ASKED)).status).toBe(200)
      expect(await proxy.spent()).toEqual(both(56))
    },
  )

  test('is priced by the model in its path, with its cached tokens apart', async () => {
    const proxy = await moneyProxy(await answeringLlm(200, { ...said('abcd'), modelVersion: 'big-001', usageMetadata: USAGE }))
    expect((await proxy.post('/v1beta/models/big:generateContent', ASKED)).status).toBe(200)
    expect(await proxy.leftWhenQuiet()).toBeCloseTo(100 - (12 * 0.01 + 8 * 0.005 + 36 * 0.02), 9)
  })

  test.each([
    ['another model in its body', { ...HELLO, model: 'models/small-1' }, 'repeated_descriptor'],
    ['both spellings of a field', { ...HELLO, generationConfig: {}, generation_config: {} }, 'repeated_descriptor'],
    ['a name in another case', { ...HELLO, GenerationConfig: {} }, 'bad_request'],
  ])('is refused with %s', async (_, body, reason) => {
    const proxy = await llmProxy(await answeringLlm(200, said('a')))
    const answer = await proxy.post(`${MODEL}:generateContent`, body)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([400, reason])
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('for embeddings reserves its text alone, which is charged though the response counts nothing', async () => {
    const backend = await answeringLlm(200, { embeddings: [{ values: [0.1] }] })
    const proxy = await llmProxy(backend)
    const content = HELLO.contents[0]
    expect(
      (await proxy.post(`${MODEL}:batchEmbedContents`, { requests: [{ model: 'models/gemini-2.5-pro', content }, { content }] })).status,
    ).toBe(200)
    expect(await proxy.spent()).toEqual(both(6))
    await proxy.post(`${MODEL}:embedContent`, { content })
    expect(await proxy.spent()).toEqual(both(9))
    expect(await proxy.edge.metric('edge_llm_not_understood_total{policy="llm"}')).toBe(0)
  })

  test.each([`${MODEL}:countTokens`, '/v1/messages/count_tokens', '/v1/publishers/anthropic/models/count-tokens:rawPredict'])(
    'that only counts tokens costs none: %s',
    async (path) => {
      const proxy = await llmProxy(await answeringLlm(200, { totalTokens: 3, input_tokens: 3 }))
      expect((await proxy.post(path, { ...ASKED, model: 'any', messages: [] })).status).toBe(200)
      expect(await proxy.spent()).toEqual(both(0))
      expect(await proxy.edge.metric('edge_llm_not_understood_total{policy="llm"}')).toBe(0)
    },
  )
})

describe('a stream of Gemini', () => {
  test.each(['?alt=sse', '?key=x&$alt=sse', '?%24alt=sse'])('is counted by its last usage: %s', async (query) => {
    const { client, spent, settlements } = await streamed(query)
    expect(client.text).toBe(EVENTS.map((event) => sse(event)).join(''))
    expect([spent, settlements['done']]).toEqual([both(56), 1])
  })

  test('is cut where its rule says so, and ends as if the model had reached its limit', async () => {
    const { client, spent } = await streamed('?alt=sse', { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } })
    const events = parseSse(client.text).map(({ data }) => JSON.parse(data))
    expect(events).toHaveLength(11)
    expect(events.at(-1)).toEqual({
      candidates: [{ content: { parts: [{ text: '' }], role: 'model' }, finishReason: 'MAX_TOKENS', index: 0 }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 11, totalTokenCount: 14 },
      modelVersion: 'gemini-2.5-pro-001',
    })
    expect(spent).toEqual(both(14))
  })

  test('ends with an error in the words of Google, where its rule says so', async () => {
    const streaming = { buffer_tokens: 1, on_limit_exceeded: 'error_chunk', include_partial_usage: false }
    const { client } = await streamed('?alt=sse', { config: { max_completion_tokens: 10 }, streaming })
    const error = { code: 429, message: 'max completion tokens exceeded', status: 'RESOURCE_EXHAUSTED' }
    expect(JSON.parse(parseSse(client.text).at(-1)!.data)).toEqual({ error })
  })

  test('that is a list is counted, and never cut', async () => {
    const { client, spent } = await streamed('', { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } })
    expect(JSON.parse(client.text)).toEqual(EVENTS)
    expect(spent).toEqual(both(56))
  })

  test('of which nothing was understood ends in the form that its path says', async () => {
    const odd = sse({ odd: 'x '.repeat(550_000) })
    const proxy = await llmProxy(await streamingLlm(odd), {
      config: { max_completion_tokens: 1 },
      streaming: { include_partial_usage: false },
    })
    const client = await proxy.open(`${MODEL}:streamGenerateContent?alt=sse`, HELLO).untilClosed()
    const candidates = [{ content: { parts: [{ text: '' }], role: 'model' }, finishReason: 'MAX_TOKENS', index: 0 }]
    expect(client.text).toBe(odd + sse({ candidates }))
  })
})

describe('where the path names the model', () => {
  const VERTEX = '/v1/projects/p/locations/l/publishers/anthropic/models/big-4@2025'
  const MESSAGE = { messages: [{ role: 'user', content: 'hello there!' }], max_tokens: 20, anthropic_version: 'vertex-2023-10-16' }
  const STREAM = [
    sse({ type: 'message_start', message: { model: 'big-4', usage: { input_tokens: 9, output_tokens: 1 } } }, 'message_start'),
    ...Array.from({ length: 9 }, () =>
      sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'abcd' } }, 'content_block_delta'),
    ),
    sse({ type: 'message_delta', delta: {}, usage: { output_tokens: 9 } }, 'message_delta'),
    sse({ type: 'message_stop' }, 'message_stop'),
  ].join('')

  test('Anthropic in Vertex is priced by it, whole and streamed', async () => {
    const answer = { type: 'message', model: 'big-4', content: [{ type: 'text', text: 'a' }], usage: { input_tokens: 9, output_tokens: 9 } }
    const whole = await moneyProxy(await answeringLlm(200, answer))
    expect((await whole.post(`${VERTEX}:rawPredict`, MESSAGE)).status).toBe(200)
    expect(await whole.leftWhenQuiet()).toBeCloseTo(100 - 9 * 0.03, 9)
    const streamed = await moneyProxy(await streamingLlm(STREAM))
    await streamed.open(`${VERTEX}:streamRawPredict`, MESSAGE).untilClosed()
    expect(await streamed.leftWhenQuiet()).toBeCloseTo(100 - 9 * 0.03, 9)
  })

  test('a stream of Anthropic in Vertex is cut, though its body does not ask for one', async () => {
    const proxy = await llmProxy(await streamingLlm(STREAM), { config: { max_completion_tokens: 4 }, streaming: { buffer_tokens: 1 } })
    const client = await proxy.open(`${VERTEX}:streamRawPredict`, MESSAGE).untilClosed()
    expect(client.text).toContain('"stop_reason":"max_tokens"')
    expect(await proxy.spent()).toEqual(both(9 + 5))
  })

  test('a body that names another model is refused, but on Azure, which ignores it', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }
    const proxy = await moneyProxy(await answeringLlm(200, { model: 'big-001', choices: [], usage }))
    const refused = await proxy.post(`${VERTEX}:rawPredict`, { ...MESSAGE, model: 'small-1' })
    expect([refused.status, refused.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
    const path = '/openai/deployments/big-mine/chat/completions?api-version=2025-01-01'
    expect((await proxy.post(path, { ...MESSAGE, model: 'small-1' })).status).toBe(200)
    expect(await proxy.leftWhenQuiet()).toBeCloseTo(100 - 9 * 0.03, 9)
  })

  test.each(['/v1/chat/completions/count_tokens', `${MODEL}:generateContent/count_tokens`])(
    'what only ends like counting is charged: %s',
    async (path) => {
      const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }
      const proxy = await llmProxy(await answeringLlm(200, { choices: [], usage }))
      expect((await proxy.post(path, MESSAGE)).status).toBe(200)
      expect(await proxy.spent()).toEqual(both(18))
    },
  )

  test('a path that begins in the URL of the backend names it, too', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }
    const backend = await answeringLlm(200, { model: 'small-1', choices: [], usage })
    const proxy = await moneyProxy(backend, { env: { EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}/openai/` } })
    expect((await proxy.post('/deployments/big-mine/chat/completions', { ...MESSAGE, model: 'small-1' })).status).toBe(200)
    expect(await proxy.leftWhenQuiet()).toBeCloseTo(100 - 9 * 0.03, 9)
  })

  test.each([
    '/OpenAI/Deployments/big-mine/chat/completions',
    '/openai/deployments/big-mine/Chat/Completions',
    '/openai/deployments/BIG-Mine/chat/completions',
    '/v1/projects/p/locations/l/publishers/mistralai/models/big-2:rawPredict',
    '/v1/projects/p/locations/l/endpoints/big-2:rawPredict',
    '/v1/projects/p/locations/l/endpoints/big-2:directRawPredict',
    '/v1/projects/p/locations/l/endpoints/big-2/chat/completions',
  ])('a body cannot name a cheaper one, however the path is spelled: %s', async (path) => {
    const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }
    const proxy = await moneyProxy(await answeringLlm(200, { model: 'small-1', choices: [], usage }))
    expect((await proxy.post(path, { ...MESSAGE, model: 'small-1' })).status).toBe(200)
    expect(await proxy.leftWhenQuiet()).toBeCloseTo(100 - 9 * 0.03, 9)
  })

  test.each([
    '/v1beta/models%2Fbig-1:generateContent',
    '/openai%2fdeployments%2Fbig-mine/chat/completions',
    '/openai/deployments%252fbig-mine/chat/completions',
  ])('a path that names it only to servers that decode slashes is refused: %s', async (path) => {
    const proxy = await moneyProxy(await answeringLlm(200, {}))
    expect((await proxy.post(path, { ...MESSAGE, ...HELLO, model: 'small-1' })).status).toBe(400)
  })
})
