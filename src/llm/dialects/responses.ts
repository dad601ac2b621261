import { asCount, asObject, type JsonObject } from '../json.ts'
import { charactersIn } from '../text-size.ts'
import { readUsage, type Tally, type TokenCounts } from '../usage.ts'
import type { Closing, Dialect, EventMeaning } from './dialect.ts'
import { EXCEEDED_CODE, EXCEEDED_MESSAGE, sseText } from './sse-text.ts'

/** Deltas that are no text: sound and pictures in base64. */
const BINARY_DELTAS = new Set(['response.audio.delta', 'response.output_audio.delta'])
const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/** OpenAI Responses. */
export class ResponsesDialect implements Dialect {
  #response: JsonObject | undefined
  #sequence: number | undefined

  read(event: JsonObject, tally: Tally): EventMeaning {
    const { type } = event
    this.#sequence = asCount(event['sequence_number']) ?? this.#sequence
    if (typeof type !== 'string') return 'content'
    if (type.endsWith('.delta')) {
      if (!BINARY_DELTAS.has(type)) tally.characters += charactersIn(event['delta'])
      return 'content'
    }
    if (type === 'error') return 'error'
    const response = asObject(event['response'])
    if (response === undefined) return 'content'
    this.#response = response
    if (!ENDS.has(type)) return 'content'
    readUsage(response['usage'], tally)
    return type === 'response.failed' ? 'error' : 'end'
  }

  closing(how: Closing, { prompt, completion }: TokenCounts, hasUsage: boolean): string {
    const usage = hasUsage ? { usage: { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion } } : {}
    const sequence = this.#sequence === undefined ? {} : { sequence_number: this.#sequence + 1 }
    if (how === 'error_chunk') {
      return sseText({ type: 'error', code: EXCEEDED_CODE, message: EXCEEDED_MESSAGE, param: null, ...sequence, ...usage }, 'error')
    }
    const response = { ...this.#response, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, ...usage }
    return sseText({ type: 'response.incomplete', ...sequence, response }, 'response.incomplete')
  }
}
