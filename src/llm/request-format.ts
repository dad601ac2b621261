import { type Fields, fieldsOf, type JsonSizes, NO_COUNT, type Reading, sum } from './json-sizes.ts'
import { unitsOf } from './json-string.ts'

/** The fields that are read from the bodies of an API, and what they say. */
export interface RequestFormat {
  readonly fields: Fields
  /** Indexes of the fields that contain the prompt. */
  readonly prompts: readonly number[]
  /** Indexes of the fields that the model also reads, exactly as they are written. */
  readonly definitions: readonly number[]
  readonly model: number
  /** Indexes of the fields that a request for embeddings does not have. */
  readonly texts: readonly number[]
  /** Index of the field that asks for a stream; undefined if the body does not say. */
  readonly stream: number | undefined
  readonly background: number | undefined
  readonly streamOptions: number | undefined
  /** Returns all bounds of a completion and all numbers of choices, ABSENT or NO_COUNT where there is none. */
  bounds(sizes: JsonSizes): number[]
  choices(sizes: JsonSizes): number[]
  /** Whether the body states a bound that its own API knows. */
  hasOwnBound(sizes: JsonSizes): boolean
  /** Whether the body has a field in both of its spellings. */
  isRepeated(sizes: JsonSizes): boolean
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const DEFINITION_FIELDS = ['tools', 'functions', 'response_format']
/** Bounds of a completion. The first two belong to chat and completions, the third to Responses, and the rest to llama.cpp, Ollama and TGI. */
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict', 'num_predict', 'max_new_tokens']
/**
 * Numbers of choices; the bound applies to each choice. With `best_of`, the provider returns some completions and bills all of them. llama.cpp
 * prefers `n_cmpl`.
 */
const CHOICES_FIELDS = ['n', 'n_cmpl', 'best_of']
/** Objects that may also contain bounds, in Ollama, TGI, SGLang and LiteLLM. In LiteLLM, such a bound replaces the one outside the object. */
const NESTING_FIELDS = ['options', 'parameters', 'sampling_params', 'extra_body']
/** No model reads the text of these fields, however long it is. */
const UNREAD_FIELDS = ['metadata', 'logit_bias', 'image', 'images']
const CHARACTERS_PER_TOKEN = 4
// Fields that contain text, and fields that contain further parts, in a message or in a part of one.
const TEXT_FIELDS = [
  'text',
  'arguments',
  'input',
  'refusal',
  'thinking',
  'reasoning_content',
  'reasoning',
  'title',
  'context',
  'encrypted_content',
]
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Fields of Responses API items that go back to the model: the tools, what they did and what they found. */
const WRITTEN_FIELDS = ['tools', 'code', 'action', 'operation', 'results', 'stdout', 'stderr']
/** Bound for content inside content, such as a tool's result inside a message. No API nests as deeply as this. */
const MAX_DEPTH = 8
/** In some APIs, the arguments of a call are an object. */
const OBJECT_FIELDS = ['input', 'arguments']

const TEXT: Reading = { text: 'characters' }
const TEXT_OR_OBJECT: Reading = { text: 'characters', written: 'objects' }
const NUMBER: Reading = { number: 'value' }
export const WRITTEN: Reading = { text: 'characters', written: 'objects and lists' }
const BOUND_READINGS = { ...readings(MAX_FIELDS, NUMBER), ...readings(CHOICES_FIELDS, NUMBER) }
/** Bounds as all servers that we know spell them, beside the prompt and in the objects where they put them. */
export const BOUND_FIELDS = { ...BOUND_READINGS, ...Object.fromEntries(NESTING_FIELDS.map((name, i) => [name, nestedBounds(i)])) }
/** Number of the objects with bounds, which is the first free index of `keptSizes`. */
export const KEPT_BOUNDS = NESTING_FIELDS.length
const PROMPT = promptPart(0)
/** Each text, and each list of token ids, is a separate prompt. */
const PROMPTS: Reading = {
  ...PROMPT,
  list: { ...PROMPT.list, isMarked: true },
}
const REQUEST = fieldsOf(
  {
    ...readings(PROMPT_FIELDS, PROMPT),
    prompt: PROMPTS,
    ...readings(DEFINITION_FIELDS, WRITTEN),
    ...BOUND_FIELDS,
    stream: { isFlag: true },
    background: { isFlag: true },
    stream_options: {},
    model: { text: 'kept' },
    ...readings(UNREAD_FIELDS, {}),
  },
  { others: WRITTEN },
)
const [MESSAGES, PROMPT_TEXT, INPUT, BOUNDS] = indexesOf(REQUEST, 'messages', 'prompt', 'input', 'max_tokens') as [
  number,
  number,
  number,
  number,
]

/** Chat, completions, embeddings, Responses and Anthropic requests, which are told apart by the fields that are present. */
export const OPEN_FORMAT: RequestFormat = {
  fields: REQUEST,
  prompts: indexesOf(REQUEST, ...PROMPT_FIELDS),
  definitions: indexesOf(REQUEST, ...DEFINITION_FIELDS),
  model: indexOf(REQUEST, 'model'),
  texts: [MESSAGES, PROMPT_TEXT],
  stream: indexOf(REQUEST, 'stream'),
  background: indexOf(REQUEST, 'background'),
  streamOptions: indexOf(REQUEST, 'stream_options'),
  bounds: (sizes) => statedBounds(sizes, BOUNDS),
  choices: (sizes) => statedChoices(sizes, BOUNDS),
  /**
   * Most servers ignore fields that their API does not define, so a body with messages or a prompt must have a chat bound, and one with `input` a
   * Responses bound. A body with none of these may have any bound.
   */
  hasOwnBound: (sizes) => {
    const isForText = sizes.has(MESSAGES) || sizes.has(PROMPT_TEXT)
    if (isForText && sizes.size(BOUNDS) < 0 && sizes.size(BOUNDS + 1) < 0) return false
    return !sizes.has(INPUT) || sizes.size(BOUNDS + 2) > 0
  },
  isRepeated: () => false,
}

/** Returns the values of BOUND_FIELDS that bound a completion, in the outermost object and in the nested ones. `from` is the index of the first. */
export function statedBounds(sizes: JsonSizes, from: number): number[] {
  return stated(sizes, from, 0, MAX_FIELDS.length)
}

/** The same for numbers of choices. */
export function statedChoices(sizes: JsonSizes, from: number): number[] {
  return stated(sizes, from, MAX_FIELDS.length, CHOICES_FIELDS.length)
}

function stated(sizes: JsonSizes, from: number, first: number, count: number): number[] {
  const values: number[] = []
  for (let i = first; i < first + count; i++) {
    values.push(sizes.size(from + i))
    for (let nested = 0; nested < KEPT_BOUNDS; nested++) {
      const kept = sizes.keptSizes[nested]
      if (kept !== undefined) values.push(kept[i]!)
    }
  }
  return values
}

/** Whether a bound or a number of choices is present but is not a positive number. */
export function isNoCount(size: number): boolean {
  return size === NO_COUNT || size === 0
}

export function indexOf({ names }: Fields, name: string): number {
  return names.indexOf(name)
}

export function indexesOf(fields: Fields, ...names: readonly string[]): number[] {
  return names.map((name) => indexOf(fields, name))
}

/** Returns how a text, a list of texts, a message or a part of one counts. A number in a list is a token id. */
function promptPart(depth: number): Reading {
  if (depth > MAX_DEPTH) return TEXT
  const inner = promptPart(depth + 1)
  // Texts, images and files are inserted into a prompt that the provider stores, under names that its author chose.
  const variables = { fields: fieldsOf({}, { others: promptPart(depth + 2) }) }
  const parts = TEXT_FIELDS.length + PART_FIELDS.length + WRITTEN_FIELDS.length
  const fields = fieldsOf(
    {
      ...readings(TEXT_FIELDS, TEXT),
      ...readings(OBJECT_FIELDS, TEXT_OR_OBJECT),
      ...readings(PART_FIELDS, inner),
      ...readings(WRITTEN_FIELDS, WRITTEN),
      type: { text: { words: [unitsOf('text')] } },
      data: TEXT,
      variables,
    },
    {
      size: (sizes, from) => sum(sizes, from, parts) + (sizes[from + parts] === 1 ? sum(sizes, from + parts + 1, 1) : 0),
    },
  )
  return { text: 'characters', list: { ...inner, number: CHARACTERS_PER_TOKEN }, fields }
}

function nestedBounds(keptAs: number): Reading {
  return { fields: fieldsOf(BOUND_READINGS, { keptAs, others: WRITTEN }) }
}

export function readings(names: readonly string[], reading: Reading): Record<string, Reading> {
  return Object.fromEntries(names.map((name) => [name, reading]))
}
