import { type Asked, textTokens } from '../call.ts'
import { type Completion, choiceText, completionOf, modelOf, piecesOf, wholeNumberIn } from '../completion.ts'
import type { ErrorKind, FakeDialect, StreamEvent } from '../dialect.ts'
import type { FakeLlmOptions } from '../flags.ts'
import { embed } from './embeddings.ts'

/** Gemini's `generateContent` and `streamGenerateContent`, in AI Studio and in Vertex. */
export const generateContent: FakeDialect = {
  whole(asked, options) {
    const { completion, candidates } = generated(asked, options)
    const list = indexes(candidates).map((index) => candidate(index, choiceText(completion, index), finishReason(completion)))
    const tokens = completion.tokens * candidates
    return { body: response(completion, list, tokens), tokens }
  },

  stream: {
    *events(asked, options): Generator<StreamEvent> {
      const { completion, candidates } = generated(asked, options)
      let soFar = 0
      for (const { tokens, textOf } of piecesOf(completion)) {
        for (const index of indexes(candidates)) {
          soFar += tokens
          yield { data: response(completion, [candidate(index, textOf(index))], soFar), tokens }
        }
      }
      const ends = indexes(candidates).map((index) => candidate(index, '', finishReason(completion)))
      yield { data: response(completion, ends, soFar), tokens: 0 }
    },
    errorEvent: (_sequence, message) => ({ data: errorBody('broken', message), tokens: 0 }),
  },

  promptTokens: promptTokensOf,
  errorBody,
}

/** Gemini's `countTokens`, of a prompt or of a whole request. */
export const contentCount: FakeDialect = {
  whole(asked) {
    const tokens = promptTokensOf(field(asked, 'generateContentRequest', objectIn) ?? asked)
    return { body: { totalTokens: tokens, ...promptDetails(tokens) }, tokens: 0 }
  },
  promptTokens: () => 0,
  errorBody,
}

/** Gemini's `embedContent`. */
export const embedContent: FakeDialect = {
  whole: (asked) => ({ body: { embedding: embedding(asked) }, tokens: 0 }),
  promptTokens: ({ content }) => textTokens(content),
  errorBody,
}

/** Gemini's `batchEmbedContents`. */
export const batchEmbedContents: FakeDialect = {
  whole({ requests }) {
    const list = Array.isArray(requests) ? requests : []
    return { body: { embeddings: list.map((request) => embedding(objectIn(request) ?? {})) }, tokens: 0 }
  },
  promptTokens: ({ requests }) =>
    (Array.isArray(requests) ? requests : []).reduce<number>((sum, request) => sum + textTokens(objectIn(request)?.['content']), 0),
  errorBody,
}

// Google does not allow more either.
const MAX_CANDIDATES = 8

function generated(asked: Asked, options: FakeLlmOptions): { completion: Completion; candidates: number } {
  const config = field(asked, 'generationConfig', objectIn) ?? {}
  const completion = completionOf(modelOf(asked), promptTokensOf(asked), field(config, 'maxOutputTokens', countIn), options)
  return { completion, candidates: Math.min(MAX_CANDIDATES, field(config, 'candidateCount', countIn) || 1) }
}

function promptTokensOf(asked: Asked): number {
  return textTokens([asked['contents'], field(asked, 'systemInstruction', (value) => value)])
}

function embedding(request: Asked): object {
  const content = JSON.stringify(request['content'] ?? '')
  return { values: [...embed(content, field(request, 'outputDimensionality', countIn))] }
}

function response({ model, hasUsage, promptTokens, cachedTokens }: Completion, candidates: readonly object[], tokens: number): object {
  const usageMetadata = {
    promptTokenCount: promptTokens,
    // Protocol Buffers leave out zeros.
    ...(tokens > 0 && { candidatesTokenCount: tokens }),
    totalTokenCount: promptTokens + tokens,
    ...(cachedTokens > 0 && { cachedContentTokenCount: cachedTokens }),
    ...promptDetails(promptTokens),
  }
  return { candidates, ...(hasUsage && { usageMetadata }), modelVersion: model, responseId: 'response-fake' }
}

function promptDetails(tokenCount: number): object {
  return { promptTokensDetails: [{ modality: 'TEXT', tokenCount }] }
}

function candidate(index: number, text: string, reason?: string): object {
  return { content: { parts: [{ text }], role: 'model' }, ...(reason && { finishReason: reason }), index }
}

function finishReason({ isCut }: Completion): string {
  return isCut ? 'MAX_TOKENS' : 'STOP'
}

const ERRORS = {
  'bad-request': { code: 400, status: 'INVALID_ARGUMENT' },
  'rate-limited': { code: 429, status: 'RESOURCE_EXHAUSTED' },
  broken: { code: 500, status: 'INTERNAL' },
} as const

function errorBody(kind: ErrorKind, message: string): object {
  const { code, status } = ERRORS[kind]
  return { error: { code, message, status } }
}

/** Reads a field that may be written in camelCase or in snake_case, as Protocol Buffers in JSON allow. */
function field<Value>(asked: Asked, name: string, read: (value: unknown) => Value | undefined): Value | undefined {
  return read(asked[name] ?? asked[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)])
}

/** A number may also be a text of digits. */
function countIn(value: unknown): number | undefined {
  return wholeNumberIn(typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
}

function objectIn(value: unknown): Asked | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Asked) : undefined
}

function indexes(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index)
}
