import { asCount, asObject, type JsonObject, writeJson } from '../json.ts'
import { readModel, readUsage, type ShownCounts, type Tally } from '../usage.ts'
import { CLOSING_ERRORS, type Closing, charactersIn, type Dialect, type EventMeaning, isErrorEvent, sseText } from './dialect.ts'
import { ResponsesOutput } from './responses-output.ts'

/** Deltas that contain base64 audio instead of text. */
const BINARY_DELTAS = new Set(['response.audio.delta', 'response.output_audio.delta'])
const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed', 'transcript.text.done'])

/** OpenAI Responses, and transcriptions, whose events have the same form but contain no response object. */
export class ResponsesDialect implements Dialect {
  /** The last event says itself that it is the end. */
  readonly hasFinished = false
  #response: JsonObject | undefined
  #sequence: number | undefined
  readonly #output = new ResponsesOutput()

  read(event: JsonObject, tally: Tally): EventMeaning {
    const { type } = event
    if (typeof type !== 'string') return 'content'
    if (type.endsWith('.delta')) {
      if (!BINARY_DELTAS.has(type)) tally.characters += charactersIn(event['delta'])
      return 'content'
    }
    if (isErrorEvent(event)) return 'error'
    const response = asObject(event['response'])
    readModel(response?.['model'], tally)
    if (!ENDS.has(type)) return 'content'
    readUsage((response ?? event)['usage'], tally)
    return type === 'response.failed' ? 'error' : 'end'
  }

  remember(event: JsonObject): void {
    this.#sequence = asCount(event['sequence_number']) ?? this.#sequence
    this.#response = asObject(event['response']) ?? this.#response
    this.#output.remember(event)
  }

  closing(how: Closing, { prompt, completion }: ShownCounts, hasUsage: boolean): string {
    const usage = hasUsage ? { usage: { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion } } : {}
    if (how !== 'graceful_close') {
      const { code, message } = CLOSING_ERRORS[how]
      return sseText({ type: 'error', code, message, param: null, ...this.#nextNumber(), ...usage }, 'error')
    }
    const known = writeJson(this.#response) === undefined ? {} : this.#response
    const { events, output } = this.#output.end()
    const own = output.length === 0 ? {} : { output }
    const response = { ...known, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, ...own, ...usage }
    return [...events, { type: 'response.incomplete', response }].map((event) => this.#text(event)).join('')
  }

  #text({ type, ...fields }: JsonObject): string {
    return sseText({ type, ...this.#nextNumber(), ...fields }, type as string)
  }

  /** Nothing if the stream has no numbers. */
  #nextNumber(): { readonly sequence_number?: number } {
    if (this.#sequence === undefined) return {}
    this.#sequence++
    return { sequence_number: this.#sequence }
  }
}
