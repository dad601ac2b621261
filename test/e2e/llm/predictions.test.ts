import { expect, test } from 'vitest'
import { llmProxy } from '../../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'

const GOOGLE = '/v1/projects/p/locations/l/publishers/google/models'
const HOSTED = '/v1/projects/p/locations/l/endpoints/123'
const both = (tokens: number) => ({ minute: tokens, day: tokens })
/** Written without spaces, an instance has 26 characters. */
const TEXTS = { instances: [{ content: 'hello there!' }, { content: 'hello again!' }] }
const PROMPT = Math.ceil((2 * 26) / 4)
const embedded = (...counts: readonly number[]) => ({
  predictions: counts.map((count) => ({ embeddings: { values: [0.5], statistics: { token_count: count, truncated: false } } })),
})

test('embeddings of a model of Google reserve their text alone, and cost the tokens of each text', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend)
  const answer = proxy.post(`${GOOGLE}/text-embedding-005:predict`, TEXTS)
  const call = await backend.next()
  expect(await proxy.held()).toEqual(both(PROMPT))
  call.answer(200, embedded(3, 4))
  expect((await answer).status).toBe(200)
  expect(await proxy.spent()).toEqual(both(7))
})

test('embeddings without counts cost the estimate of their text', async () => {
  const proxy = await llmProxy(await answeringLlm(200, { predictions: [{ textEmbedding: [0.5] }] }))
  await proxy.post(`${GOOGLE}/multimodalembedding@001:predict`, TEXTS)
  expect(await proxy.spent()).toEqual(both(PROMPT))
})

test.each([
  [`${GOOGLE}/text-bison:predict`, { predictions: [{ content: 'x'.repeat(400) }] }],
  [`${HOSTED}:predict`, { predictions: ['x'.repeat(400)] }],
  [`${HOSTED}:predict`, { predictions: ['x'], metadata: { tokenMetadata: { inputTokenCount: { totalTokens: 1 } } } }],
  [`${HOSTED}:predict`, { predictions: ['x'], usage: { prompt_tokens: 1, completion_tokens: 1 } }],
  [`${HOSTED}:predict`, embedded(-5, 0)],
])('%s keeps its reservation, which no bound of the request makes smaller, where the response has no count: %j', async (path, response) => {
  const proxy = await llmProxy(await answeringLlm(200, response), { config: { max_completion_tokens: 500 } })
  await proxy.post(path, { ...TEXTS, max_tokens: 1, max_output_tokens: 1, input: '', parameters: { maxOutputTokens: 1 } })
  expect(await proxy.spent()).toEqual(both(PROMPT + 500))
})

test('texts that are read and generated cost what the metadata say', async () => {
  const tokenMetadata = { inputTokenCount: { totalTokens: 5 }, outputTokenCount: { totalTokens: '30' } }
  const proxy = await llmProxy(await answeringLlm(200, { predictions: [{ content: 'text' }], metadata: { tokenMetadata } }))
  await proxy.post(`${GOOGLE}/text-bison:predict`, TEXTS)
  expect(await proxy.spent()).toEqual(both(35))
})
