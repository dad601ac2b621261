import { type Asked, promptTokens } from '../call.ts'
import { choiceText, complete } from '../completion.ts'
import { CREATED_SECONDS, type FakeDialect } from '../dialect.ts'
import { choicesOf, chunkEvents, errorChunk, finishReason, openAiError, openAiUsage } from './openai.ts'

/** OpenAI's POST /v1/completions. */
export const completions: FakeDialect = {
  whole(asked, options) {
    const completion = complete(asked, options)
    const count = countChoices(asked)
    const choices = Array.from({ length: count }, (_, index) => choice(index, choiceText(completion, index), finishReason(completion)))
    return { body: { ...head(completion.model), choices, ...openAiUsage(completion, count) }, tokens: completion.tokens * count }
  },

  stream: {
    events(asked, options) {
      const completion = complete(asked, options)
      const form = {
        head: head(completion.model),
        say: (index: number, text: string) => choice(index, text),
        close: (index: number, reason: string) => choice(index, '', reason),
      }
      return chunkEvents(form, asked, completion, countChoices(asked))
    },
    errorEvent: errorChunk,
  },

  promptTokens,
  errorBody: openAiError,
}

/** Counts the choices: each prompt gets `n` completions, and a list of numbers is one prompt. */
function countChoices(asked: Asked): number {
  const { prompt } = asked
  const prompts = Array.isArray(prompt) && prompt.length > 0 && typeof prompt[0] !== 'number' ? prompt.length : 1
  return prompts * choicesOf(asked)
}

function head(model: string): object {
  return { id: 'cmpl-fake', object: 'text_completion', created: CREATED_SECONDS, model }
}

function choice(index: number, text: string, reason: string | null = null): object {
  return { index, text, logprobs: null, finish_reason: reason }
}
