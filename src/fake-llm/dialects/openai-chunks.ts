import { type Completion, piecesOf } from '../completion.ts'
import type { StreamDialect, StreamEvent } from '../dialect.ts'
import type { Asked } from '../prompt.ts'
import { openAiError } from './openai-error.ts'
import { finishReason, openAiUsage } from './openai-usage.ts'

/** What chunks of the two completion endpoints do not share. */
export interface ChunkForm {
  readonly head: object
  /** A choice's first chunk, before any text. */
  open?(index: number): object
  say(index: number, text: string): object
  close(index: number, reason: string): object
}

/** Choices take turns. Usage comes last, to those who asked for it. */
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

/** No more chunks follow it, not even the end mark. */
export const errorChunk: StreamDialect['errorEvent'] = (_sequence, message) => ({
  data: openAiError('broken', message),
  tokens: 0,
})

function asksForUsage({ stream_options }: Asked): boolean {
  return typeof stream_options === 'object' && stream_options !== null && (stream_options as Asked)['include_usage'] === true
}
