import type { Asked } from '../call.ts'
import { type Completion, piecesOf, wholeNumberIn } from '../completion.ts'
import type { ErrorKind, StreamDialect, StreamEvent } from '../dialect.ts'

/** The parts of a chunk in which the two completion endpoints differ. */
export interface ChunkForm {
  readonly head: object
  /** Returns a choice's first chunk, before any text. */
  open?(index: number): object
  say(index: number, text: string): object
  close(index: number, reason: string): object
}

/** Yields the chunks of all choices in turn. Usage comes last, if the request asked for it. */
export function* chunkEvents(form: ChunkForm, asked: Asked, completion: Completion, choices: number): Generator<StreamEvent> {
  const showsUsage = completion.hasUsage && asksForUsage(asked)
  const chunk = (choice: object, tokens = 0): StreamEvent => {
    const data = { ...form.head, choices: [choice], ...(showsUsage && { usage: null }) }
    return { data, tokens }
  }
  if (form.open !== undefined) for (let index = 0; index < choices; index++) yield chunk(form.open(index))
  for (const { tokens, textOf } of piecesOf(completion)) {
    for (let index = 0; index < choices; index++) yield chunk(form.say(index, textOf(index)), tokens)
  }
  for (let index = 0; index < choices; index++) yield chunk(form.close(index, finishReason(completion)))
  if (showsUsage) yield { data: { ...form.head, choices: [], ...openAiUsage(completion, choices) }, tokens: 0 }
  yield { data: '[DONE]', tokens: 0 }
}

/** No more chunks follow an error, not even the end marker. */
export const errorChunk: StreamDialect['errorEvent'] = (_sequence, message) => ({
  data: openAiError('broken', message),
  tokens: 0,
})

function asksForUsage({ stream_options }: Asked): boolean {
  return typeof stream_options === 'object' && stream_options !== null && (stream_options as Asked)['include_usage'] === true
}

const TYPES = { 'bad-request': 'invalid_request_error', 'rate-limited': 'rate_limit_error', broken: 'server_error' } as const

export function openAiError(kind: ErrorKind, message: string, code: string | null = null): object {
  return { error: { message, type: TYPES[kind], param: null, code } }
}

/** Returns an object to spread into a response: a `usage` field, or nothing if usage is switched off. */
export function openAiUsage({ hasUsage, promptTokens, cachedTokens, tokens }: Completion, choices: number): object {
  if (!hasUsage) return {}
  const completionTokens = tokens * choices
  return {
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
    },
  }
}

export function finishReason({ isCut }: Completion): 'length' | 'stop' {
  return isCut ? 'length' : 'stop'
}

// OpenAI does not allow more either.
const MAX_CHOICES = 128

/** Returns the number of completions per prompt. */
export function choicesOf({ n }: Asked): number {
  return Math.min(MAX_CHOICES, wholeNumberIn(n) || 1)
}
