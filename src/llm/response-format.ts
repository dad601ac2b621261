import { GEMINI_CANDIDATE, GEMINI_USAGE_FIELDS } from './dialects/gemini.ts'
import type { JsonObject } from './json.ts'
import { type Fields, fieldsOf, type JsonSizes, type Reading, sum } from './json-sizes.ts'
import { unitsOf } from './json-string.ts'
import { DETAIL_FIELDS, USAGE_DETAILS, USAGE_FIELDS } from './usage.ts'

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
/** Its reason to end is marked. */
const CHUNK: Reading = { fields: fieldsOf({ delta: MESSAGE, text: TEXT, finish_reason: { isMarked: true } }) }

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
export const GEMINI_ITEM: Reading = { fields: fieldsOf(GEMINI_READINGS, { size: (sizes, from) => sum(sizes, from, 1) }) }

const KEPT_USAGE = keptObject(
  { ...numbers(USAGE_FIELDS), ...Object.fromEntries(USAGE_DETAILS.map((name, i) => [name, keptObject(numbers(DETAIL_FIELDS), 1 + i)])) },
  0,
)
/** Counts above zero if it says anything, as in `isErrorEvent`. */
const ERROR_READING: Reading = { text: 'characters', written: 'objects' }

/** The fields of a whole response, in all APIs; each of the names beside them is the index of one. */
const RESPONSE_READINGS = {
  choices: { list: CHOICE },
  output: { list: ITEM },
  content: { list: BLOCK },
  type: { text: { words: [unitsOf('message')] } },
  status: { text: { words: [unitsOf('queued'), unitsOf('in_progress')] } },
  model: { text: 'kept' },
  usage: KEPT_USAGE,
  ...GEMINI_READINGS,
  error: ERROR_READING,
} satisfies Record<string, Reading>
export const RESPONSE = fieldsOf(RESPONSE_READINGS)
/** Index of the id, where it is read. */
export const ID = Object.keys(RESPONSE_READINGS).length

/** Returns the same fields and an id, which counts above zero if it is one of these. */
export function responseWithId(ids: readonly string[]): Fields {
  return fieldsOf({ ...RESPONSE_READINGS, id: { text: { words: ids.map(unitsOf) } } })
}

const [CHOICES, OUTPUT, CANDIDATES] = [0, 1, 7]
export const [CONTENT, TYPE, STATUS, MODEL, USAGE, METADATA, METADATA_IN_SNAKE_CASE, ERROR] = [2, 3, 4, 5, 6, 8, 9, 12]
/** Fields whose text counts in every response. */
export const TEXTS = [CHOICES, OUTPUT, CANDIDATES]

/** Types of deltas that are sound, in base64. */
export const SOUND_TYPES = ['response.audio.delta', 'response.output_audio.delta']
/** Types of events that mean something beside their text. What the others have in common is their API. */
export const EVENT_TYPES = [
  ...SOUND_TYPES,
  ...['response.created', 'response.in_progress', 'response.completed', 'response.incomplete', 'response.failed', 'transcript.text.done'],
  ...['message_start', 'content_block_start', 'content_block_delta', 'message_delta', 'message_stop', 'error'],
]
const NESTED: Reading = { fields: fieldsOf({ model: { text: 'kept' }, usage: KEPT_USAGE }) }

/** The fields of a stream's event, in all APIs, as the dialects read them. */
export const EVENT = fieldsOf({
  choices: { list: CHUNK },
  type: { text: { words: EVENT_TYPES.map(unitsOf) } },
  delta: { text: 'characters', fields: fieldsOf({ text: TEXT, thinking: TEXT, partial_json: TEXT }) },
  content_block: BLOCK,
  response: NESTED,
  message: NESTED,
  model: { text: 'kept' },
  usage: KEPT_USAGE,
  ...GEMINI_READINGS,
  error: ERROR_READING,
})

/** Returns what was kept of the usage, as JSON.parse would return it. The order is that of USAGE_FIELDS and USAGE_DETAILS. */
export function keptUsage({ keptSizes }: JsonSizes): JsonObject | undefined {
  if (keptSizes[0] === undefined) return undefined
  const [total, prompt, input, completion, output, cacheRead, cacheCreation, ...areKept] = keptSizes[0]
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

/** The same of Gemini's usage. */
export function keptGeminiUsage({ keptSizes }: JsonSizes): JsonObject | undefined {
  const metadata = keptSizes[GEMINI_USAGE]
  return metadata && Object.fromEntries(GEMINI_USAGE_FIELDS.map((name, index) => [name, metadata[index]!]))
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
