import { GEMINI_CANDIDATE, GEMINI_USAGE_FIELDS, readGeminiModel, readGeminiUsage } from './dialects/gemini.ts'
import type { JsonObject } from './json.ts'
import { JsonScanner, SCAN_LIMITS } from './json-scanner.ts'
import { fieldsOf, JsonSizes, type Reading, sum } from './json-sizes.ts'
import { unitsOf } from './json-string.ts'
import { DETAIL_FIELDS, newTally, readModel, readUsage, type Tally, USAGE_DETAILS, USAGE_FIELDS } from './usage.ts'

const TEXT: Reading = { text: 'characters' }
const TEXT_PARTS: Reading = { fields: fieldsOf({ text: TEXT }) }
const CONTENT_PARTS: Reading = { fields: fieldsOf({ text: TEXT, thinking: { text: 'characters', list: TEXT_PARTS } }) }
const ARGUMENTS: Reading = { fields: fieldsOf({ arguments: TEXT }) }
const CUSTOM: Reading = { fields: fieldsOf({ input: TEXT }) }
const CALL: Reading = { fields: fieldsOf({ function: ARGUMENTS, custom: CUSTOM }) }

/** The message of a chat choice. Of the two names of reasoning only the longer text counts, because both hold the same text, or one is empty. */
const MESSAGE: Reading = {
  fields: fieldsOf(
    {
      reasoning_content: TEXT,
      reasoning: TEXT,
      content: { text: 'characters', list: CONTENT_PARTS },
      refusal: TEXT,
      tool_calls: { list: CALL },
      function_call: ARGUMENTS,
    },
    { size: (sizes, from) => sum(sizes, from + 2, 4) + Math.max(0, sizes[from]!, sizes[from + 1]!) },
  ),
}
const CHOICE: Reading = { fields: fieldsOf({ message: MESSAGE, text: TEXT }) }

/** An output item of the Responses API: a message, a call or reasoning. */
const ITEM_PARTS: Reading = { list: { fields: fieldsOf({ text: TEXT, refusal: TEXT }) } }
const ITEM: Reading = { fields: fieldsOf({ arguments: TEXT, input: TEXT, content: ITEM_PARTS, summary: ITEM_PARTS }) }

/** A block of an Anthropic message. */
const BLOCK: Reading = { fields: fieldsOf({ text: TEXT, thinking: TEXT, input: { written: 'objects' } }) }

/** A response of Gemini. Without `alt=sse`, a stream is a list of them, each with the next part of the text and the usage so far. */
const GEMINI_USAGE = 1 + USAGE_DETAILS.length
const GEMINI_READINGS = {
  candidates: { list: GEMINI_CANDIDATE },
  usageMetadata: keptObject(numbers(GEMINI_USAGE_FIELDS, 'value or text'), GEMINI_USAGE),
  usage_metadata: keptObject(numbers(GEMINI_USAGE_FIELDS, 'value or text'), GEMINI_USAGE),
  modelVersion: { text: 'kept' },
  model_version: { text: 'kept' },
} satisfies Record<string, Reading>
const GEMINI_ITEM: Reading = { fields: fieldsOf(GEMINI_READINGS, { size: (sizes, from) => sum(sizes, from, 1) }) }

const RESPONSE = fieldsOf({
  choices: { list: CHOICE },
  output: { list: ITEM },
  content: { list: BLOCK },
  type: { text: { words: [unitsOf('message')] } },
  status: { text: { words: [unitsOf('queued'), unitsOf('in_progress')] } },
  model: { text: 'kept' },
  usage: keptObject(
    { ...numbers(USAGE_FIELDS), ...Object.fromEntries(USAGE_DETAILS.map((name, i) => [name, keptObject(numbers(DETAIL_FIELDS), 1 + i)])) },
    0,
  ),
  ...GEMINI_READINGS,
})
const [CHOICES, OUTPUT, CONTENT, TYPE, STATUS, MODEL, USAGE, CANDIDATES, METADATA, METADATA_IN_SNAKE_CASE] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
/** Fields whose text counts in every response. */
const TEXTS = [CHOICES, OUTPUT, CANDIDATES]

/** Reads the cost of a response that is not streamed, while its bytes arrive. */
export interface TallyReader {
  push(bytes: Uint8Array, from: number, to: number): void
  readonly isBeyondLimits: boolean
  /** Whether the response reports that its work continues in the background, so that its usage is not known yet. */
  readonly isUnderWay: boolean
  /** Returns the tally of a complete response. */
  end(): Tally
  /** Returns the tally of a response that was cut off. */
  breakOff(): Tally
}

/** Reads the responses of all APIs but `predict`, by the fields that are present. */
export class LlmResponseReader implements TallyReader {
  readonly #sizes = new JsonSizes(RESPONSE, GEMINI_ITEM)
  readonly #scanner = new JsonScanner(this.#sizes, SCAN_LIMITS)

  push(bytes: Uint8Array, from: number, to: number): void {
    this.#scanner.push(bytes, from, to)
  }

  get isBeyondLimits(): boolean {
    return this.#scanner.isBeyondLimits
  }

  get isUnderWay(): boolean {
    return this.#sizes.size(STATUS) > 0
  }

  end(): Tally {
    const tally = newTally()
    if (!this.#scanner.end()) return tally
    tally.characters = this.#characters(this.#sizes.size(TYPE) === 1)
    this.#readRest(tally)
    return tally
  }

  /** Everything received so far counts. Without a type, it may still be an Anthropic message. */
  breakOff(): Tally {
    this.#scanner.breakOff()
    const tally = newTally()
    this.#readRest(tally)
    // This is set after the count is read, so that the larger of the two applies.
    tally.characters = this.#characters(this.#sizes.size(TYPE) !== 0)
    return tally
  }

  #characters(isMessage: boolean): number {
    const sizes = this.#sizes
    let characters = sizes.listSize + (isMessage ? Math.max(0, sizes.size(CONTENT)) : 0)
    for (const index of TEXTS) characters += Math.max(0, sizes.size(index))
    return characters
  }

  #readRest(tally: Tally): void {
    const sizes = this.#sizes
    if (sizes.has(MODEL)) readModel(sizes.keptText, tally)
    else readGeminiModel(sizes.keptText, tally)
    if (sizes.size(USAGE) === 1) readUsage(this.#usage(), tally)
    const metadata = sizes.keptSizes[GEMINI_USAGE]
    const isKept = sizes.isList || sizes.size(METADATA) === 1 || sizes.size(METADATA_IN_SNAKE_CASE) === 1
    if (metadata !== undefined && isKept) readGeminiUsage(named(GEMINI_USAGE_FIELDS, metadata), tally)
  }

  /** Returns what was kept of the usage, as JSON.parse would return it. The order is that of USAGE_FIELDS and USAGE_DETAILS. */
  #usage(): JsonObject {
    const { keptSizes } = this.#sizes
    const [total, prompt, input, completion, output, cacheRead, cacheCreation, ...areKept] = keptSizes[0]!
    const details = (i: number): JsonObject | undefined => (areKept[i] === 1 ? usageDetails(keptSizes[1 + i]!) : undefined)
    return {
      total_tokens: total,
      prompt_tokens: prompt,
      input_tokens: input,
      completion_tokens: completion,
      output_tokens: output,
      cache_read_input_tokens: cacheRead,
      cache_creation_input_tokens: cacheCreation,
      prompt_tokens_details: details(0),
      input_tokens_details: details(1),
      cache_creation: details(2),
    }
  }
}

/** The order is that of DETAIL_FIELDS. */
function usageDetails([cached, cacheWrite, for5m, for1h]: readonly number[]): JsonObject {
  return { cached_tokens: cached, cache_write_tokens: cacheWrite, ephemeral_5m_input_tokens: for5m, ephemeral_1h_input_tokens: for1h }
}

function numbers(names: readonly string[], number: 'value' | 'value or text' = 'value'): Record<string, Reading> {
  return Object.fromEntries(names.map((name) => [name, { number }]))
}

/** An object whose field sizes are all kept and whose own size is 1. */
function keptObject(readings: Record<string, Reading>, keptAs: number): Reading {
  return { fields: fieldsOf(readings, { size: () => 1, keptAs }) }
}

function named(names: readonly string[], sizes: readonly number[]): JsonObject {
  return Object.fromEntries(names.map((name, index) => [name, sizes[index]!]))
}
