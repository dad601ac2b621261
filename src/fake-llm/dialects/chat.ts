import { promptTokens } from '../call.ts'
import { choiceText, complete } from '../completion.ts'
import { CREATED_SECONDS, type FakeDialect } from '../dialect.ts'
import { choicesOf, chunkEvents, errorChunk, finishReason, openAiError, openAiUsage } from './openai.ts'

/** OpenAI's POST /v1/chat/completions. */
export const chat: FakeDialect = {
  whole(asked, options) {
    const completion = complete(asked, options)
    const count = choicesOf(asked)
    const choices = Array.from({ length: count }, (_, index) => ({
      index,
      message: { role: 'assistant', content: choiceText(completion, index), refusal: null, annotations: [] },
      logprobs: null,
      finish_reason: finishReason(completion),
    }))
    const body = { ...head('chat.completion', completion.model), choices, ...openAiUsage(completion, count) }
    return { body, tokens: completion.tokens * count }
  },

  stream: {
    events(asked, options) {
      const completion = complete(asked, options)
      const form = {
        head: head('chat.completion.chunk', completion.model),
        open: (index: number) => choice(index, { role: 'assistant', content: '', refusal: null }),
        say: (index: number, content: string) => choice(index, { content }),
        close: (index: number, reason: string) => choice(index, {}, reason),
      }
      return chunkEvents(form, asked, completion, choicesOf(asked))
    },
    errorEvent: errorChunk,
  },

  promptTokens,
  errorBody: openAiError,
}

function head(object: string, model: string): object {
  return { id: 'chatcmpl-fake', object, created: CREATED_SECONDS, model }
}

function choice(index: number, delta: object, reason: string | null = null): object {
  return { index, delta, logprobs: null, finish_reason: reason }
}
