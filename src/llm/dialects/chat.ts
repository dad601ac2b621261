import { chatCharacters } from '../generated-text.ts'
import { asCount, asObject, type JsonObject } from '../json.ts'
import { charactersIn } from '../text-size.ts'
import { chatUsage, readUsage, type Tally, type TokenCounts } from '../usage.ts'
import type { Closing, Dialect, EventMeaning } from './dialect.ts'
import { EXCEEDED_CODE, EXCEEDED_MESSAGE, sseText } from './sse-text.ts'

const REPEATED_FIELDS = ['id', 'object', 'created', 'model'] as const
/** More choices than any API gives: a stream that names more is not remembered further. */
const MAX_CHOICES = 1024

/** OpenAI chat completions, and the completions before them. */
export class ChatDialect implements Dialect {
  /** The stream's first chunk, for the fields that a closing one repeats. */
  #first: JsonObject | undefined
  /** Choices by index, and whether they have ended. */
  readonly #hasEnded = new Map<number, boolean>()
  #isText = false

  read(event: JsonObject, tally: Tally): EventMeaning {
    if (event['usage'] !== null && event['usage'] !== undefined) readUsage(event['usage'], tally)
    if (asObject(event['error']) !== undefined) return 'error'
    if (this.#first === undefined && event['id'] !== undefined) this.#first = event
    const choices = event['choices']
    if (Array.isArray(choices)) for (const choice of choices) this.#readChoice(asObject(choice), tally)
    return 'content'
  }

  closing(how: Closing, counts: TokenCounts, hasUsage: boolean): string {
    const usage = hasUsage ? { usage: chatUsage(counts) } : {}
    const payload =
      how === 'error_chunk'
        ? { error: { message: EXCEEDED_MESSAGE, type: 'rate_limit_error', code: EXCEEDED_CODE }, ...usage }
        : { ...this.#repeatedFields(), choices: this.#closingChoices(), ...usage }
    return `${sseText(payload)}data: [DONE]\n\n`
  }

  #readChoice(choice: JsonObject | undefined, tally: Tally): void {
    if (choice === undefined) return
    if (typeof choice['text'] === 'string') {
      this.#isText = true
      tally.characters += charactersIn(choice['text'])
    } else tally.characters += chatCharacters(choice['delta'])
    const index = asCount(choice['index'])
    if (index === undefined || (this.#hasEnded.size >= MAX_CHOICES && !this.#hasEnded.has(index))) return
    this.#hasEnded.set(index, choice['finish_reason'] !== null && choice['finish_reason'] !== undefined)
  }

  #repeatedFields(): object {
    const first = this.#first ?? {}
    return Object.fromEntries(REPEATED_FIELDS.filter((field) => first[field] !== undefined).map((field) => [field, first[field]]))
  }

  #closingChoices(): object[] {
    const rest = this.#isText ? { text: '', logprobs: null, finish_reason: 'length' } : { delta: {}, finish_reason: 'length' }
    const open = [...this.#hasEnded].filter(([, hasEnded]) => !hasEnded).map(([index]) => ({ index, ...rest }))
    return open.length === 0 ? [rest] : open
  }
}
