import { type Asked, promptTokens } from '../call.ts'
import { type Completion, choiceText, complete, piecesOf, wholeNumberIn } from '../completion.ts'
import { CREATED_SECONDS, type FakeDialect, type StreamEvent } from '../dialect.ts'
import { openAiError } from './openai.ts'

/** OpenAI's POST /v1/responses. */
export const responses: FakeDialect = {
  whole(asked, options) {
    const completion = complete(asked, options)
    return { body: finished(asked, completion), tokens: completion.tokens }
  },

  stream: {
    *events(asked, options) {
      let sequence = 0
      for (const { type, tokens = 0, ...fields } of steps(asked, complete(asked, options))) {
        yield { name: type, data: { type, sequence_number: sequence++, ...fields }, tokens }
      }
    },
    errorEvent: (sequence, message): StreamEvent => ({
      name: 'error',
      data: { type: 'error', sequence_number: sequence, code: 'server_error', message, param: null },
      tokens: 0,
    }),
  },

  promptTokens,
  errorBody: openAiError,
}

type Step = { readonly type: string; readonly tokens?: number } & Readonly<Record<string, unknown>>

const ITEM_ID = 'msg_fake'
const IN_ITEM = { item_id: ITEM_ID, output_index: 0, content_index: 0 }

function* steps(asked: Asked, completion: Completion): Generator<Step> {
  const started = response(asked, completion, 'in_progress', [])
  const text = choiceText(completion)
  yield { type: 'response.created', response: started }
  yield { type: 'response.in_progress', response: started }
  yield { type: 'response.output_item.added', output_index: 0, item: message('in_progress', []) }
  yield { type: 'response.content_part.added', ...IN_ITEM, part: textPart('') }
  for (const { tokens, textOf } of piecesOf(completion)) {
    yield { type: 'response.output_text.delta', tokens, ...IN_ITEM, delta: textOf(0), logprobs: [] }
  }
  yield { type: 'response.output_text.done', ...IN_ITEM, text, logprobs: [] }
  yield { type: 'response.content_part.done', ...IN_ITEM, part: textPart(text) }
  yield { type: 'response.output_item.done', output_index: 0, item: message(statusOf(completion), [textPart(text)]) }
  yield { type: `response.${statusOf(completion)}`, response: finished(asked, completion) }
}

function finished(asked: Asked, completion: Completion): object {
  const status = statusOf(completion)
  const { hasUsage, promptTokens, cachedTokens, tokens } = completion
  const usage = {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + tokens,
  }
  const body = response(asked, completion, status, [message(status, [textPart(choiceText(completion))])])
  return hasUsage ? { ...body, usage } : body
}

type Status = 'in_progress' | 'completed' | 'incomplete'

function statusOf({ isCut }: Completion): Status {
  return isCut ? 'incomplete' : 'completed'
}

function response(asked: Asked, { model }: Completion, status: Status, output: readonly object[]): object {
  return {
    id: 'resp_fake',
    object: 'response',
    created_at: CREATED_SECONDS,
    status,
    error: null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: typeof asked['instructions'] === 'string' ? asked['instructions'] : null,
    max_output_tokens: wholeNumberIn(asked['max_output_tokens']) ?? null,
    metadata: {},
    model,
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
  }
}

function message(status: Status, content: readonly object[]): object {
  return { id: ITEM_ID, type: 'message', role: 'assistant', status, content }
}

function textPart(text: string): object {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}
