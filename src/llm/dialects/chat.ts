import { asCount, asList, asObject, type JsonObject } from '../json.ts'
import { addTokens, chatUsage, larger, NOT_COUNTED, newTally, readModel, readUsage, type ShownCounts, type Tally } from '../usage.ts'
import {
  CLOSING_ERRORS,
  type Closing,
  characters,
  chatCharacters,
  type Dialect,
  type EventMeaning,
  haveAllEnded,
  isErrorEvent,
  sseText,
} from './dialect.ts'

const REPEATED_FIELDS = ['id', 'object', 'created', 'model'] as const
/** No API returns this many choices. Further choices are not tracked. */
const MAX_CHOICES = 1024

/** OpenAI chat completions, and legacy completions. */
export class ChatDialect implements Dialect {
  /** Fields of earlier chunks that the closing chunk repeats. */
  readonly #repeated: Record<string, unknown> = {}
  #missingFields: readonly string[] = REPEATED_FIELDS
  /** Whether each choice, by its index, has ended. */
  readonly #hasEnded = new Map<number, boolean>()
  /** Completion tokens of each choice that counts its own, and the last such count, which is not read yet. */
  readonly #completions = new Map<number, number>()
  #choiceUsage: JsonObject | undefined
  #isText = false
  /** Whether a choice has come to its end. */
  #hasFinishReason = false

  get hasFinished(): boolean {
    return haveAllEnded(this.#hasEnded)
  }

  read(event: JsonObject, tally: Tally): EventMeaning {
    this.#rememberFields(event)
    readModel(event['model'], tally)
    const choices = event['choices']
    if (Array.isArray(choices)) for (const choice of choices) this.#readChoice(asObject(choice), tally)
    // This must come after the choices: the provider's count includes the text of the same event.
    const isCounted = this.#readUsage(event, tally)
    // Some servers count in every event, and some of them nothing but zeros before the end.
    if (isCounted && !this.#hasFinishReason && asList(choices).length > 0) tally.countedCharacters = NOT_COUNTED
    return isErrorEvent(event) ? 'error' : 'content'
  }

  /** A choice needs no closing only if the client has received its end. */
  remember(event: JsonObject): void {
    const choices = event['choices']
    if (!Array.isArray(choices)) return
    for (const value of choices) {
      const choice = asObject(value)
      const index = asCount(choice?.['index'])
      if (index === undefined || !this.#hasEnded.has(index)) continue
      this.#hasEnded.set(index, isFinished(choice!))
    }
  }

  closing(how: Closing, counts: ShownCounts, hasUsage: boolean): string {
    const usage = hasUsage ? { usage: chatUsage(counts) } : {}
    const payload =
      how === 'graceful_close'
        ? { ...this.#repeatedFields(), choices: this.#closingChoices(), ...usage }
        : { error: CLOSING_ERRORS[how], ...usage }
    return `${sseText(payload)}data: [DONE]\n\n`
  }

  #rememberFields(event: JsonObject): void {
    if (this.#missingFields.length === 0) return
    this.#missingFields = this.#missingFields.filter((field) => {
      const value = event[field]
      // Some providers send these fields empty in the first chunk.
      const isSeen = (typeof value === 'string' || typeof value === 'number') && Boolean(value)
      if (isSeen) this.#repeated[field] = value
      return !isSeen
    })
  }

  /** Groq's count is in an object of its own, and Kimi's in each choice. Returns whether the event has a count. */
  #readUsage(event: JsonObject, tally: Tally): boolean {
    const usage = asObject(event['usage']) ?? asObject(asObject(event['x_groq'])?.['usage'])
    readUsage(usage, tally)
    const ofChoices = this.#choiceUsage
    if (ofChoices === undefined) return usage !== undefined
    this.#choiceUsage = undefined
    let sum = 0
    for (const tokens of this.#completions.values()) sum = addTokens(sum, tokens)
    readUsage({ ...ofChoices, completion_tokens: sum }, tally)
    return true
  }

  /** Each choice counts its own completion, and all of them the same prompt. */
  #noteChoiceUsage(usage: JsonObject, index: number): void {
    const own = newTally()
    readUsage(usage, own)
    const known = this.#completions.get(index)
    if (known === undefined && this.#completions.size === MAX_CHOICES) return
    this.#completions.set(index, larger(known, own.completionTokens) ?? 0)
    this.#choiceUsage = usage
  }

  #readChoice(choice: JsonObject | undefined, tally: Tally): void {
    if (choice === undefined) return
    const { text } = choice
    this.#hasFinishReason ||= isFinished(choice)
    if (typeof text === 'string') this.#isText = true
    tally.characters += typeof text === 'string' ? characters(text) : chatCharacters(choice['delta'])
    const index = asCount(choice['index'])
    const usage = choice['usage']
    if (usage !== undefined && asObject(usage) !== undefined) this.#noteChoiceUsage(usage as JsonObject, index ?? 0)
    if (index !== undefined && !this.#hasEnded.has(index) && this.#hasEnded.size < MAX_CHOICES) this.#hasEnded.set(index, false)
  }

  #repeatedFields(): object {
    const seen = REPEATED_FIELDS.filter((field) => this.#repeated[field] !== undefined)
    return Object.fromEntries(seen.map((field) => [field, this.#repeated[field]]))
  }

  #closingChoices(): object[] {
    const rest = this.#isText ? { text: '', logprobs: null, finish_reason: 'length' } : { delta: {}, finish_reason: 'length' }
    const open = [...this.#hasEnded].filter(([, hasEnded]) => !hasEnded).map(([index]) => ({ index, ...rest }))
    return open.length === 0 ? [rest] : open
  }
}

function isFinished({ finish_reason: reason }: JsonObject): boolean {
  return reason !== null && reason !== undefined
}
