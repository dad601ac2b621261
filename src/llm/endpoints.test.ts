import { describe, expect, test } from 'vitest'
import { AMBIGUOUS_MODEL, endpointOf, isCountingPath, isEmbeddingPath, plainModel } from './endpoints.ts'

const VERTEX = '/v1/projects/p/locations/l/publishers'
const HOSTED = '/v1/projects/p/locations/l/endpoints'
const PREDICTS = { ignoresBodyModel: true, isPrediction: true }

describe('a path', () => {
  test.each([
    ['/v1beta/models/gemini-2.5-pro:generateContent', { dialect: 'gemini', model: 'gemini-2.5-pro' }],
    ['/v1beta/models/gemini-2.5-pro%3AgenerateContent', { dialect: 'gemini', model: 'gemini-2.5-pro' }],
    ['/v1beta/models/x:generateContent/', { dialect: 'gemini', model: 'x' }],
    ['/models/x:streamGenerateContent', { dialect: 'gemini', model: 'x', isStream: true }],
    [`/base${VERTEX}/google/models/x:streamGenerateContent`, { dialect: 'gemini', model: 'x', isStream: true }],
    ['/v1beta/tunedModels/mine-1:generateContent', { dialect: 'gemini', model: 'mine-1' }],
    ['/v1/projects/p/locations/l/endpoints/123:generateContent', { dialect: 'gemini', model: '123' }],
    ['/v1beta/models/e:embedContent', { dialect: 'gemini', model: 'e', isEmbedding: true }],
    ['/v1beta/models/e:batchEmbedContents', { dialect: 'gemini', model: 'e', isEmbedding: true }],
    ['/v1beta/models/x:countTokens', { dialect: 'gemini', model: 'x', isCounting: true, ignoresBodyModel: true }],
    [`${VERTEX}/anthropic/models/claude-4@2025:rawPredict`, { dialect: 'anthropic', model: 'claude-4@2025' }],
    [`${VERTEX}/anthropic/models/claude-4%402025:streamRawPredict`, { dialect: 'anthropic', model: 'claude-4@2025', isStream: true }],
    [`${VERTEX}/anthropic/models/count-tokens:rawPredict`, { dialect: 'anthropic', isCounting: true, ignoresBodyModel: true }],
    ['/v1/messages/count_tokens', { dialect: 'anthropic', isCounting: true, ignoresBodyModel: true }],
    ['/openai/deployments/my-gpt/chat/completions', { model: 'my-gpt', ignoresBodyModel: true }],
    ['/base/openai/deployments/my-gpt/embeddings', { model: 'my-gpt', ignoresBodyModel: true, isEmbedding: true }],
    ['/OpenAI/Deployments/my-gpt/chat/completions', { model: 'my-gpt', ignoresBodyModel: true }],
    ['/openai/deployments/azure/my-gpt/chat/completions', { model: 'azure/my-gpt', ignoresBodyModel: true }],
    ['/openai/deployments/my-gpt/some/other', { model: 'my-gpt', ignoresBodyModel: true }],
    ['/OPENAI/deployments/My-GPT/chat/completions', { model: 'my-gpt', ignoresBodyModel: true }],
    ['/v1beta/dynamic/d-1:generateContent', { dialect: 'gemini', model: 'd-1' }],
    [`${HOSTED}/123:rawPredict`, { model: '123', ignoresBodyModel: true }],
    [`${HOSTED}/123:streamRawPredict`, { model: '123', ignoresBodyModel: true, isStream: true }],
    [`${HOSTED}/123/chat/completions`, { model: '123', ignoresBodyModel: true }],
    [`${HOSTED}/123:predict`, { model: '123', ignoresBodyModel: true, isPrediction: true }],
    [`${HOSTED}/123:serverStreamingPredict`, { model: '123', ignoresBodyModel: true, isPrediction: true, isStream: true }],
    [`${HOSTED}/123:directRawPredict`, { model: '123', ignoresBodyModel: true }],
    ['/v1beta/models/x:predict', { model: 'x', ignoresBodyModel: true, isPrediction: true }],
    ['/v1beta/models/x:predictLongRunning', { model: 'x', ignoresBodyModel: true, isPrediction: true }],
    [`${VERTEX}/google/models/text-embedding-005:predict`, { ...PREDICTS, model: 'text-embedding-005', isEmbedding: true }],
    [`${VERTEX}/google/models/text-bison%3Apredict`, { ...PREDICTS, model: 'text-bison' }],
    [`${VERTEX}/other/models/no-embedding:predict`, { ...PREDICTS, model: 'no-embedding' }],
    [`${HOSTED}/embedding:predict`, { ...PREDICTS, model: 'embedding' }],
    ['/models/x:rawPredict', { model: 'x', ignoresBodyModel: true }],
    [`${VERTEX}/mistralai/models/m@1:rawPredict`, { model: 'm@1', ignoresBodyModel: true }],
    [`${VERTEX}/mistralai/models/m:streamRawPredict`, { model: 'm', ignoresBodyModel: true, isStream: true }],
    ['/files%2Fx/v1beta/models/x:generateContent', { dialect: 'gemini', model: 'x' }],
  ])('says what it is for: %s', (path, endpoint) => {
    expect(endpointOf(path)).toEqual(endpoint)
  })

  test.each([
    '/v1/chat/completions',
    '/v1beta/models/x',
    '/v1beta/cachedContents/x:predict',
    `${HOSTED}/openapi/chat/completions`,
    '/endpoints/123/chat/completions',
    '/v1beta/models/x:GenerateContent',
    '/v1beta/models/x:constructor',
    '/v1beta/models/x:generateContent/count_tokens',
    '/v1/chat/completions/count_tokens',
    '/v1beta/models/:generateContent',
    '/v1beta/cachedContents/x:generateContent',
    '/v1/chat:generateContent',
    '/v1/files/a%2Fb',
    '/openai/deployments/x',
    '/',
  ])('says nothing: %s', (path) => {
    expect(endpointOf(path)).toEqual({})
  })

  test.each([
    '/models/cheap%2F..%2Fdear:generateContent',
    '/models/cheap..:generateContent',
    '/models/cheap%5Cdear:generateContent',
    '/models/cheap%2Fdear:generateContent',
    '/models/cheap;dear:generateContent',
    '/models/cheap%253Ax:generateContent',
    '/models/cheap%00:generateContent',
    '/models/cheap%FF:generateContent',
    '/models/a%20b:generateContent',
    `/models/${'x'.repeat(257)}:generateContent`,
    '/openai/deployments/a%2Fb/chat/completions',
    '/openai/deployments/a/b%2Fc/chat/completions',
    '/openai/deployments%2Fdear/chat/completions',
    `${HOSTED}%2Fdear/chat/completions`,
    `${HOSTED}/a%2F..%2Fdear:rawPredict`,
    '/v1beta/dynamic%2Fdear:generateContent',
    '/openai%252Fdeployments/dear/chat/completions',
    '/v1beta/models%2Fdear:generateContent',
    '/v1beta%2Fmodels%2Fdear%3AgenerateContent',
    `/openai/deployments/${'x/'.repeat(200)}chat/completions`,
  ])('names no model that backends could read in two ways: %s', (path) => {
    expect(endpointOf(path).model).toBe(AMBIGUOUS_MODEL)
  })

  test('generates nothing, or counts only, where it says so', () => {
    const embeddings = [
      '/v1/embeddings',
      '/v1/moderations',
      ...['/api/embed', '/v2/embed', '/tei/embed_all', '/model/amazon.titan-embed-text-v2:0/invoke'],
      '/models/e:embedContent',
      '/models/e%3AbatchEmbedContents',
      `${VERTEX}/google/models/embedding:predict`,
    ]
    expect(embeddings.map(isEmbeddingPath)).toEqual(embeddings.map(() => true))
    const generating = [
      ...['/v1/chat/embedContent', '/models/e:generateContent', '/embed/chat', '/v1/no-embed', '/model/embed/x/invoke'],
      '/v1/moderations/x',
      ...['/model/amazon.nova-pro-v1:0/invoke', `${VERTEX}/google/models/x:predict`],
    ]
    expect(generating.map(isEmbeddingPath)).toEqual(generating.map(() => false))
    const counting = ['/v1/messages/count_tokens', '/models/x:countTokens', `${VERTEX}/anthropic/models/count-tokens:rawPredict`]
    expect(counting.map(isCountingPath)).toEqual([true, true, true])
    const others = [
      '/v1/count_tokens/x',
      '/chat/completions/count_tokens',
      '/models/x:countTokens/',
      '/x:countTokens',
      '/models/count-tokens:rawPredict',
      `${VERTEX}/anthropic/models/x:rawPredict`,
    ]
    expect(others.map(isCountingPath)).toEqual(others.map(() => false))
  })
})

test('a model has the same name with and without the resources above it', () => {
  const names = ['x', 'models/x', 'publishers/google/models/x', 'tunedModels/x', 'dynamic/x', 'a/x', 'mymodels/x', 'models/']
  expect(names.map(plainModel)).toEqual(['x', 'x', 'x', 'x', 'x', 'a/x', 'mymodels/x', ''])
})
