import type { FakeDialect } from './dialect.ts'
import { azureChat, azureCompletions } from './dialects/azure.ts'
import { chat } from './dialects/chat.ts'
import { completions } from './dialects/completions.ts'
import { embeddings } from './dialects/embeddings.ts'
import { batchEmbedContents, contentCount, embedContent, generateContent } from './dialects/gemini.ts'
import { messageCount, messages } from './dialects/messages.ts'
import { responses } from './dialects/responses.ts'
import type { Framing } from './send.ts'

/** What responds to a POST, and what its path and query say about the response. */
export interface FakeEndpoint {
  readonly dialect: FakeDialect
  /** The model that the path names. The body's has no effect then. */
  readonly model?: string
  /** Whether the response is a stream; undefined if the body says so. */
  readonly isStream?: boolean
  /** SSE if this is missing. */
  readonly framing?: Framing
}

/** The dialects of OpenAI and Anthropic, by path. */
export const ENDPOINTS: ReadonlyMap<string, FakeDialect> = new Map([
  ['/v1/chat/completions', chat],
  ['/v1/completions', completions],
  ['/v1/embeddings', embeddings],
  ['/v1/messages', messages],
  ['/v1/messages/count_tokens', messageCount],
  ['/v1/responses', responses],
])

/** What follows the name of an Azure deployment. */
const AZURE_ENDPOINTS: ReadonlyMap<string, FakeDialect> = new Map([
  ['/chat/completions', azureChat],
  ['/completions', azureCompletions],
  ['/embeddings', embeddings],
])

/** Google's methods, which follow the colon after the model. */
const GEMINI_METHODS: ReadonlyMap<string, FakeEndpoint> = new Map([
  ['generateContent', { dialect: generateContent, isStream: false }],
  ['streamGenerateContent', { dialect: generateContent, isStream: true }],
  ['countTokens', { dialect: contentCount, isStream: false }],
  ['embedContent', { dialect: embedContent, isStream: false }],
  ['batchEmbedContents', { dialect: batchEmbedContents, isStream: false }],
])

/** Methods of Anthropic's models in Vertex. */
const VERTEX_METHODS: ReadonlyMap<string, FakeEndpoint> = new Map([
  ['rawPredict', { dialect: messages, isStream: false }],
  ['streamRawPredict', { dialect: messages, isStream: true }],
])

const DEPLOYMENT = /^\/openai\/deployments\/([^/]+)(\/.+)$/
/** Azure's Responses API, and its API that has OpenAI's own paths. */
const AZURE_RESPONSES = /^\/openai(?:\/v1)?\/responses$/
const METHOD = /\/(?:models|tunedModels|endpoints)\/([^/]+)(?::|%3[Aa])([A-Za-z]+)$/
const ANTHROPIC = '/publishers/anthropic/models/'

/** Returns what responds to a POST to this path, or undefined if nothing does. */
export function findEndpoint(path: string, query: string): FakeEndpoint | undefined {
  const own = AZURE_RESPONSES.test(path) ? responses : ENDPOINTS.get(path)
  if (own !== undefined) return { dialect: own }
  const [, deployment, rest] = DEPLOYMENT.exec(path) ?? []
  if (deployment !== undefined) {
    const dialect = AZURE_ENDPOINTS.get(rest!)
    return dialect && { dialect, model: decoded(deployment) }
  }
  const [, name, method] = METHOD.exec(path) ?? []
  return name === undefined ? undefined : googleEndpoint(path, decoded(name), method!, query)
}

function googleEndpoint(path: string, model: string, method: string, query: string): FakeEndpoint | undefined {
  if (!path.includes(ANTHROPIC)) {
    const found = GEMINI_METHODS.get(method)
    const parameters = new URLSearchParams(query)
    const framing = (parameters.get('alt') ?? parameters.get('$alt')) === 'sse' ? 'sse' : 'list'
    return found && { ...found, model, framing }
  }
  // Vertex has this name in place of a model, which is in the body.
  if (model === 'count-tokens' && method === 'rawPredict') return { dialect: messageCount, isStream: false }
  const found = VERTEX_METHODS.get(method)
  return found && { ...found, model }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
