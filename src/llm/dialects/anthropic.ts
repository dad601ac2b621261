import { asCount, asObject, type JsonObject } from '../json.ts'
import { readModel, readPromptUsage, readUsage, type ShownCounts, type Tally } from '../usage.ts'
import {
  blockCharacters,
  CLOSING_ERRORS,
  type Closing,
  charactersIn,
  type Dialect,
  type EventMeaning,
  isErrorEvent,
  sseText,
} from './dialect.ts'

/** No message has this many blocks. Further blocks are not tracked. */
const MAX_BLOCKS = 1024

/** Anthropic messages. */
export class AnthropicDialect implements Dialect {
  readonly #openBlocks = new Set<number>()
  /** Set by message_delta, after which only message_stop follows. */
  hasFinished = false

  read(event: JsonObject, tally: Tally): EventMeaning {
    switch (event['type']) {
      case 'message_start': {
        const message = asObject(event['message'])
        readModel(message?.['model'], tally)
        // The output_tokens here is a placeholder; the real count comes with message_delta.
        readPromptUsage(message?.['usage'], tally)
        return 'content'
      }
      case 'content_block_start':
        tally.characters += blockCharacters(event['content_block'])
        return 'content'
      case 'content_block_delta': {
        const delta = asObject(event['delta'])
        tally.characters += charactersIn(delta?.['text']) + charactersIn(delta?.['thinking']) + charactersIn(delta?.['partial_json'])
        return 'content'
      }
      case 'message_delta':
        readUsage(event['usage'], tally)
        return 'content'
      case 'message_stop':
        return 'end'
      default:
        return isErrorEvent(event) ? 'error' : 'content'
    }
  }

  remember(event: JsonObject): void {
    if (event['type'] === 'message_delta') this.hasFinished = true
    const index = asCount(event['index'])
    if (index === undefined) return
    if (event['type'] === 'content_block_stop') this.#openBlocks.delete(index)
    else if (event['type'] === 'content_block_start' && this.#openBlocks.size < MAX_BLOCKS) this.#openBlocks.add(index)
  }

  closing(how: Closing, { prompt, completion }: ShownCounts, hasUsage: boolean): string {
    if (how !== 'graceful_close') {
      const { type, message, code } = CLOSING_ERRORS[how]
      const usage = hasUsage ? { usage: { input_tokens: prompt, output_tokens: completion } } : {}
      return sseText({ type: 'error', error: { type, message, code }, ...usage }, 'error')
    }
    const stops = [...this.#openBlocks].map((index) => sseText({ type: 'content_block_stop', index }, 'content_block_stop'))
    // Clients expect output_tokens even if the rule does not report usage.
    const usage = hasUsage ? { input_tokens: prompt, output_tokens: completion } : { output_tokens: completion }
    const delta = { type: 'message_delta', delta: { stop_reason: 'max_tokens', stop_sequence: null }, usage }
    return `${stops.join('')}${sseText(delta, 'message_delta')}${sseText({ type: 'message_stop' }, 'message_stop')}`
  }
}
