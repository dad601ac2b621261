import { describe, expect, test } from 'vitest'
import { endpointOf } from '../endpoints.ts'
import { type LlmRequest, LlmRequestReader } from '../llm-request.ts'

const PATH = '/v1beta/models/gemini-2.5-pro:generateContent'

function judge(body: object | string, path = PATH): ReturnType<LlmRequestReader['end']> {
  const reader = new LlmRequestReader('utf8', endpointOf(path))
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  reader.push(bytes, 0, bytes.length)
  return reader.end()
}

function read(body: object | string, path = PATH): LlmRequest {
  const request = judge(body, path)
  if (typeof request === 'string') throw new Error(request)
  return request
}

const textOf = (length: number) => ({ role: 'user', parts: [{ text: 'x'.repeat(length) }] })
const HELLO = { contents: [textOf(12)] }

describe('the prompt of a Gemini request', () => {
  test.each([
    ['its contents', { contents: [textOf(12), { parts: [{ text: 'abcd' }, { text: 'efgh' }] }] }, 5],
    ['contents that are one', { contents: textOf(12) }, 3],
    ['the system instruction', { ...HELLO, systemInstruction: textOf(8) }, 5],
    ['the system instruction in snake_case', { ...HELLO, system_instruction: { parts: { text: 'x'.repeat(8) } } }, 5],
    ['what calls and results say', { contents: [{ parts: [{ functionCall: { args: { a: 1 } } }] }] }, 4],
    ['results in snake_case', { contents: [{ parts: [{ function_response: { response: { a: 12 } } }] }] }, 6],
    ['code and its output', { contents: [{ parts: [{ executableCode: { code: 'abc' } }, { codeExecutionResult: { output: 'x' } }] }] }, 7],
    ['text that comes as data', { contents: [{ parts: [{ inlineData: { mimeType: 'text/plain', data: 'x'.repeat(16) } }] }] }, 4],
    ['text that comes as data, in snake_case', { contents: [{ parts: [{ inline_data: { data: 'abcd', mime_type: 'text/csv' } }] }] }, 1],
    ['no pictures', { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: 'x'.repeat(4000) } }] }] }, 0],
    ['the definitions of tools', { ...HELLO, tools: [{ functionDeclarations: [{ name: 'f' }] }], tool_config: { a: 'bc' } }, 16],
    ['what the model must answer', { ...HELLO, generationConfig: { responseSchema: { description: 'x'.repeat(300) } } }, 83],
    ['no safety settings', { ...HELLO, safetySettings: [{ category: 'x'.repeat(400) }], labels: { a: 'x'.repeat(400) } }, 3],
    ['members that are not known', { ...HELLO, messages: [{ content: 'x'.repeat(300) }] }, 82],
    ['the whole of a body without any', { messages: [{ content: 'abcd' }] }, 9],
    ['what is embedded', { model: 'models/gemini-2.5-pro', content: textOf(12), title: 'abcd' }, 3],
    ['what is embedded together', { requests: [{ content: textOf(12), title: 'abcd' }, { content: textOf(4) }] }, 5],
  ])('is %s', (_, body, tokens) => {
    expect(read(body)).toMatchObject({ promptTokens: tokens, model: 'gemini-2.5-pro', dialect: 'gemini' })
  })
})

test('a request for embeddings is one only if it has no contents to continue', () => {
  const path = '/models/gemini-2.5-pro:embedContent'
  expect(read({ content: textOf(12) }, path)).toMatchObject({ isEmbedding: true, isForText: false })
  expect(read(HELLO, path)).toMatchObject({ isEmbedding: undefined, isForText: true })
})

describe('the bound of a Gemini request', () => {
  test.each([
    ['maxOutputTokens', { maxOutputTokens: 100 }, 100],
    ['max_output_tokens', { max_output_tokens: 100 }, 100],
    ['a text', { maxOutputTokens: '100' }, 100],
    ['for each candidate', { maxOutputTokens: '100', candidateCount: '3' }, 300],
    ['for each candidate, in snake_case', { max_output_tokens: 100, candidate_count: 2 }, 200],
    ['nothing', {}, undefined],
    ['null', { maxOutputTokens: null }, undefined],
    ['zero', { maxOutputTokens: 0 }, undefined],
    ['a text that is no number', { maxOutputTokens: '1e2' }, undefined],
    ['an empty text', { maxOutputTokens: '' }, undefined],
    ['too many digits', { maxOutputTokens: '9'.repeat(400) }, undefined],
    ['a list', { maxOutputTokens: [1] }, undefined],
    ['no number of candidates', { maxOutputTokens: 100, candidateCount: 'x' }, undefined],
    ['no candidate', { maxOutputTokens: 100, candidateCount: 0 }, undefined],
  ])('is that of its configuration: %s', (_, config, requestedTokens) => {
    expect(read({ ...HELLO, generationConfig: config }).requestedTokens).toBe(requestedTokens)
    expect(read({ ...HELLO, generation_config: config }).requestedTokens).toBe(requestedTokens)
  })

  test('is not one that another API has, which can only make it larger', () => {
    expect(read({ ...HELLO, max_tokens: 5, maxOutputTokens: 5 }).requestedTokens).toBeUndefined()
    expect(read({ ...HELLO, max_tokens: 500, generationConfig: { maxOutputTokens: 5 } }).requestedTokens).toBe(500)
    expect(read({ ...HELLO, n: 3, generationConfig: { maxOutputTokens: 5 } })).toMatchObject({ requestedTokens: 15, choices: 3 })
    expect(read({ ...HELLO, options: { num_predict: 0 }, generationConfig: { maxOutputTokens: 5 } }).requestedTokens).toBeUndefined()
  })
})

describe('what two readers could understand differently', () => {
  test.each([
    ['both spellings of the system instruction', { systemInstruction: textOf(1), system_instruction: textOf(1) }],
    ['both spellings of the configuration', { generationConfig: {}, generation_config: { maxOutputTokens: 1 } }],
    ['both spellings of the tools', { toolConfig: {}, tool_config: {} }],
    ['both spellings of the bound', { generationConfig: { maxOutputTokens: 1, max_output_tokens: 60_000 } }],
    ['both spellings of the candidates', { generationConfig: { candidateCount: 1, candidate_count: 8 } }],
    ['another model', { model: 'models/gemini-2.5-flash' }],
    ['a model that is no text', { model: 5 }],
    ['a model that is too long', { model: 'x'.repeat(300) }],
    ['another model for one of several texts', { requests: [{ model: 'models/gemini-2.5-pro' }, { model: 'models/dear' }] }],
  ])('is refused: %s', (_, members) => {
    expect(judge({ ...HELLO, ...members })).toBe('repeated_descriptor')
  })

  test('is refused where a name of the configuration comes twice, or in another case', () => {
    expect(judge('{"contents":[],"generationConfig":{"maxOutputTokens":1,"m\\u0061xOutputTokens":60000}}')).toBe('repeated_descriptor')
    expect(judge('{"contents":[],"contents":[]}')).toBe('repeated_descriptor')
    expect(judge({ ...HELLO, generationConfig: { MaxOutputTokens: 5 } })).toBe('bad_request')
    expect(judge({ ...HELLO, generationconfig: { maxOutputTokens: 5 } })).toBe('bad_request')
    expect(judge({ contents: [] }, '/models/a%2Fb:generateContent')).toBe('bad_request')
  })

  test.each([
    ['the same model', { model: 'gemini-2.5-pro' }],
    ['the same model by its resource', { model: 'publishers/google/models/gemini-2.5-pro' }],
    ['no model', { model: null }],
    ['an empty one', { model: '' }],
    ['the same model for all texts', { requests: [{ model: 'models/gemini-2.5-pro' }, { model: 'models/gemini-2.5-pro' }] }],
    ['one spelling of each', { systemInstruction: textOf(1), generation_config: { maxOutputTokens: 1 } }],
  ])('is not: %s', (_, members) => {
    expect(read({ ...HELLO, ...members }).model).toBe('gemini-2.5-pro')
  })
})

describe('where the path names the model', () => {
  const chat = { messages: [], max_tokens: 5 }
  const vertex = '/v1/projects/p/locations/l/publishers/anthropic/models/claude-4@2025:streamRawPredict'

  test('the path wins, and says whether there is a stream', () => {
    expect(read(HELLO, '/models/x:streamGenerateContent')).toMatchObject({ model: 'x', isStream: true })
    expect(read(chat, vertex)).toMatchObject({ model: 'claude-4@2025', isStream: true, requestedTokens: 5, dialect: 'anthropic' })
    expect(judge({ ...chat, model: 'claude-3' }, vertex)).toBe('repeated_descriptor')
  })

  test('another model in the body is ignored by Azure, and where tokens are only counted', () => {
    const azure = '/openai/deployments/mine/chat/completions'
    expect(read({ ...chat, model: 'gpt-5' }, azure)).toMatchObject({ model: 'mine', requestedTokens: 5 })
    expect(read({ contents: [], model: 'models/y' }, '/models/x:countTokens').model).toBe('x')
    expect(
      read({ ...chat, model: 'claude-4' }, vertex.replace('claude-4@2025:stream', 'count-tokens:').replace('RawP', 'rawP')).model,
    ).toBe('claude-4')
  })

  test('a body that is no JSON may name any other, except on Azure', () => {
    expect(read('NaN', PATH)).toMatchObject({ model: undefined, isUnreadable: true, isStream: true })
    expect(read('NaN', '/openai/deployments/mine/chat/completions')).toMatchObject({ model: 'mine', isUnreadable: true })
    expect(read('', PATH)).toMatchObject({ model: 'gemini-2.5-pro', isUnreadable: false })
  })
})
