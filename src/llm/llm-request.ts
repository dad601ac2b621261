import { JsonScanner, SCAN_LIMITS } from './json-scanner.ts'
import { fieldsOf, JsonSizes, NO_COUNT, type Reading, sum } from './json-sizes.ts'
import { type Charset, unitsOf } from './json-string.ts'
import { estimatedTokens, MAX_TOKENS } from './usage.ts'

/** What a request's body says about its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most that it requests, over all choices; undefined where it sets no limit. */
  readonly requestedTokens: number | undefined
  /** How many choices it requests, for all of its prompts together. */
  readonly choices: number
  /** The body has a `stream` that is neither `false` nor null; or it is not JSON for us, and a more lenient backend may find one. */
  readonly isStream: boolean
  /** Undefined where it is not a string, or longer than 256 UTF-16 units. */
  readonly model: string | undefined
  /** It is not JSON for us, and a more lenient backend may find any model in it. */
  readonly isUnreadable?: boolean
  /** Where in its bytes the name `stream_options` ends; 0 where it has none, undefined where its bytes are not UTF-8. */
  readonly streamOptionsAt?: number | undefined
  /** What it asks for goes on when its response has ended. */
  readonly isBackground?: boolean
  /** It has a field for a prompt, though perhaps no text that we find there. */
  readonly hasPrompt?: boolean
  /** It is a form. */
  readonly isUpload?: boolean
  /** It has messages or a prompt, which no request for embeddings has. */
  readonly isForText?: boolean
}

/** Whether a response to it should have a count or a text: other requests list, upload or look something up. */
export function asksForTokens({ promptTokens, requestedTokens, hasPrompt, isUpload }: LlmRequest): boolean {
  return isUpload !== true && (promptTokens > 0 || hasPrompt === true || requestedTokens !== undefined)
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
/** What the model reads too, as it is written. */
const DEFINITION_FIELDS = ['tools', 'functions', 'response_format']
/** Of chat and completions (two), of Responses, then of llama.cpp, Ollama and TGI. */
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict', 'num_predict', 'max_new_tokens']
/** For each of several choices the bound counts again; of `best_of` completions, the provider shows some and bills all. llama.cpp prefers `n_cmpl`. */
const CHOICES_FIELDS = ['n', 'n_cmpl', 'best_of']
/** Objects that may have bounds too: of Ollama, TGI, SGLang, and LiteLLM, which has them replace those beside it. */
const NESTING_FIELDS = ['options', 'parameters', 'sampling_params', 'extra_body']
/** However long they are, no model reads their text. */
const UNREAD_FIELDS = ['metadata', 'logit_bias', 'image', 'images']
/** Other fields together: less is no prompt, but names and switches that we do not know. */
const FREE_CHARACTERS = 256
/** White space around the JSON costs no tokens, and takes memory. */
const MAX_PADDING_BYTES = 64 * 1024
const CHARACTERS_PER_TOKEN = 4
// The fields of a message, or of a part of it, that hold text, and those that hold further parts.
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content', 'reasoning', 'title', 'context']
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Of items of the Responses API that go back to the model: what its tools were, did and found. */
const WRITTEN_FIELDS = ['tools', 'code', 'action', 'operation', 'results', 'stdout', 'stderr']
/** Of content inside content, such as a tool's result inside a message. Deeper than any API nests it. */
const MAX_DEPTH = 8
/** The arguments of a call are an object in some APIs. */
const OBJECT_FIELDS = ['input', 'arguments']

const TEXT: Reading = { text: 'characters' }
const TEXT_OR_OBJECT: Reading = { text: 'characters', written: 'objects' }
const NUMBER: Reading = { number: 'value' }
const WRITTEN: Reading = { text: 'characters', written: 'objects and lists' }
const BOUND_READINGS = { ...readings(MAX_FIELDS, NUMBER), ...readings(CHOICES_FIELDS, NUMBER) }
const PROMPT = promptPart(0)
/** Each text, and each list of token ids, is a prompt of its own. */
const PROMPTS: Reading = { ...PROMPT, list: { ...PROMPT.list, isMarked: true } }
const REQUEST = fieldsOf(
  {
    ...readings(PROMPT_FIELDS, PROMPT),
    prompt: PROMPTS,
    ...readings(DEFINITION_FIELDS, WRITTEN),
    ...BOUND_READINGS,
    ...Object.fromEntries(NESTING_FIELDS.map((name, i) => [name, nestedBounds(i)])),
    stream: { isFlag: true },
    background: { isFlag: true },
    stream_options: {},
    model: { text: 'kept' },
    ...readings(UNREAD_FIELDS, {}),
  },
  { others: WRITTEN },
)
const [MESSAGES, PROMPT_TEXT, INPUT, DEFINITIONS, BOUNDS, CHOICES, STREAM, STREAM_OPTIONS, BACKGROUND] = [
  ...['messages', 'prompt', 'input', 'tools', 'max_tokens', 'n', 'stream', 'stream_options', 'background'],
].map((name) => REQUEST.names.indexOf(name)) as [number, number, number, number, number, number, number, number, number]

/**
 * Reads chat, completions, embeddings, Responses and Anthropic requests by the fields that are present, while their bytes
 * arrive.
 */
export class LlmRequestReader {
  readonly #sizes = new JsonSizes(REQUEST)
  readonly #scanner: JsonScanner
  readonly #encoding = new JsonEncoding((bytes, from, to) => this.#scanner.push(bytes, from, to))

  constructor(charset: Charset = 'utf8') {
    this.#scanner = new JsonScanner(this.#sizes, SCAN_LIMITS, charset)
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    this.#encoding.push(bytes, from, to)
  }

  /** No further bytes will be read. */
  get isBeyondLimits(): boolean {
    return this.#scanner.isBeyondLimits
  }

  end(): LlmRequest | 'body_too_large' | 'repeated_descriptor' | 'bad_request' {
    this.#encoding.end()
    const isJson = this.#scanner.end()
    if (this.#scanner.isBeyondLimits) return 'body_too_large'
    const sizes = this.#sizes
    if (!isJson) return unreadable(this.#scanner.spelledCharacters)
    if (this.#scanner.paddingBytes > MAX_PADDING_BYTES) return 'body_too_large'
    // Of two values, one reader takes the first and another the last.
    if (sizes.hasRepeatedName) return 'repeated_descriptor'
    // Most readers ignore `Max_Tokens`, and some read it as max_tokens.
    if (sizes.hasNameInOtherCase) return 'bad_request'
    const stated = this.#stated(CHOICES, CHOICES_FIELDS.length)
    const choices = Math.min(Math.max(1, ...stated) * Math.max(sizes.marked, 1), MAX_TOKENS)
    return {
      promptTokens: estimatedTokens(this.#promptCharacters()),
      requestedTokens: stated.some(isNoCount) ? undefined : this.#requestedTokens(choices),
      choices,
      isStream: sizes.size(STREAM) === 1,
      model: sizes.keptText,
      isBackground: sizes.size(BACKGROUND) === 1,
      hasPrompt: PROMPT_FIELDS.some((_name, index) => sizes.has(index)),
      isForText: sizes.has(MESSAGES) || sizes.has(PROMPT_TEXT),
      streamOptionsAt: this.#streamOptionsAt(),
    }
  }

  #streamOptionsAt(): number | undefined {
    const { skipped } = this.#encoding
    if (skipped === undefined) return undefined
    if (!this.#sizes.has(STREAM_OPTIONS)) return 0
    return skipped + this.#sizes.nameEnds[STREAM_OPTIONS]!
  }

  /** Of the known fields and of what else is written beside them; without any known one, of the whole body. */
  #promptCharacters(): number {
    const sizes = this.#sizes
    let isKnown = false
    let characters = sizes.otherSize > FREE_CHARACTERS ? sizes.otherSize : 0
    for (let i = 0; i < PROMPT_FIELDS.length + DEFINITION_FIELDS.length; i++) {
      isKnown ||= i < DEFINITIONS && sizes.has(i)
      characters += Math.max(0, sizes.size(i))
    }
    return isKnown ? characters : this.#scanner.spelledCharacters
  }

  /** Backends differ in which bound they obey, so the largest counts; and in what they make of one that is no positive number, so it counts as none. */
  #requestedTokens(choices: number): number | undefined {
    const stated = this.#stated(BOUNDS, MAX_FIELDS.length)
    const largest = Math.max(...stated)
    return largest < 0 || stated.some(isNoCount) || !this.#hasOwnBound() ? undefined : Math.min(largest * choices, MAX_TOKENS)
  }

  /** Most servers ignore what their API does not have, so each that may read this body must find its own bound. Without a known prompt, any may. */
  #hasOwnBound(): boolean {
    const sizes = this.#sizes
    const isForText = sizes.has(MESSAGES) || sizes.has(PROMPT_TEXT)
    if (isForText && sizes.size(BOUNDS) < 0 && sizes.size(BOUNDS + 1) < 0) return false
    return !sizes.has(INPUT) || sizes.size(BOUNDS + 2) > 0
  }

  /** What fields in a row say, wherever they are. */
  #stated(from: number, count: number): number[] {
    const stated: number[] = []
    for (let i = from; i < from + count; i++) {
      stated.push(this.#sizes.size(i))
      for (const nested of this.#sizes.keptSizes) if (nested !== undefined) stated.push(nested[i - BOUNDS]!)
    }
    return stated
  }
}

/** Whether a bound, or a number of choices, is there and no positive number. */
function isNoCount(size: number): boolean {
  return size === NO_COUNT || size === 0
}

/** In UTF-32, with `NaN`, in an unknown content coding: some backends accept each of them. */
function unreadable(characters: number): LlmRequest {
  const promptTokens = estimatedTokens(characters)
  const isUnreadable = characters > 0
  return { promptTokens, requestedTokens: undefined, choices: 1, isStream: isUnreadable, model: undefined, isUnreadable }
}

/** A text, a list of texts, messages and their parts. A number in a list is a token id. */
function promptPart(depth: number): Reading {
  if (depth > MAX_DEPTH) return TEXT
  const inner = promptPart(depth + 1)
  // A prompt that the provider keeps has texts, pictures and files put into it, under names of its own.
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
    { size: (sizes, from) => sum(sizes, from, parts) + (sizes[from + parts] === 1 ? sum(sizes, from + parts + 1, 1) : 0) },
  )
  return { text: 'characters', list: { ...inner, number: CHARACTERS_PER_TOKEN }, fields }
}

function nestedBounds(keptAs: number): Reading {
  return { fields: fieldsOf(BOUND_READINGS, { keptAs, others: WRITTEN }) }
}

function readings(names: readonly string[], reading: Reading): Record<string, Reading> {
  return Object.fromEntries(names.map((name) => [name, reading]))
}

/** How many bytes tell the encoding of JSON, of which the first character is ASCII. */
const TELLING_BYTES = 4
const NOTHING = new Uint8Array(0)

type Decoder = InstanceType<typeof TextDecoder>
/** Who takes UTF-8. */
type Sink = (bytes: Uint8Array, from: number, to: number) => void

/**
 * Hands JSON on as UTF-8, without a byte order mark. Some servers read UTF-16 too, told by its byte order mark or by the zeros in the first two
 * characters, as Python's `json.loads` does. UTF-32 stays as it is, and so is no JSON.
 */
export class JsonEncoding {
  /** How many bytes came before what was handed on as it came; undefined: it was decoded. */
  skipped: number | undefined = 0
  readonly #sink: Sink
  /** Bytes that came before the encoding was known. */
  #first: Uint8Array | undefined = NOTHING
  #decoder: Decoder | undefined

  constructor(sink: Sink) {
    this.#sink = sink
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    if (this.#first !== undefined) this.#begin(bytes.subarray(from, to))
    else if (this.#decoder === undefined) this.#sink(bytes, from, to)
    else this.#decode(this.#decoder, bytes.subarray(from, to))
  }

  /** The last byte has come. */
  end(): void {
    if (this.#first !== undefined) this.#tell(this.#first)
  }

  #begin(bytes: Uint8Array): void {
    // What is kept is copied: these bytes are the caller's.
    const isEnough = this.#first === NOTHING && bytes.length >= TELLING_BYTES
    this.#first = isEnough ? bytes : Buffer.concat([this.#first!, bytes])
    if (this.#first.length >= TELLING_BYTES) this.#tell(this.#first)
  }

  #tell(first: Uint8Array): void {
    this.#first = undefined
    const encoding = utf16Of(first)
    this.skipped = encoding !== undefined ? undefined : hasUtf8Mark(first) ? 3 : 0
    if (encoding === undefined) return this.#sink(first, this.skipped!, first.length)
    this.#decoder = new TextDecoder(encoding)
    this.#decode(this.#decoder, first)
  }

  #decode(decoder: Decoder, bytes: Uint8Array): void {
    const text = Buffer.from(decoder.decode(bytes, { stream: true }))
    this.#sink(text, 0, text.length)
  }
}

function hasUtf8Mark([a, b, c]: Uint8Array): boolean {
  return a === 0xef && b === 0xbb && c === 0xbf
}

function utf16Of([a, b, c, d]: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  if (a === undefined || b === undefined) return undefined
  if (a === 0xfe && b === 0xff) return 'utf-16be'
  // With two zeros behind it, it is the mark of UTF-32.
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? undefined : 'utf-16le'
  if (a === 0) return b === 0 ? undefined : 'utf-16be'
  if (b === 0) return c === 0 && d === 0 ? undefined : 'utf-16le'
  return undefined
}

/** What counts where a provider's count is missing: our estimate, or at least what was reserved. */
export type WithoutUsage = 'estimate' | 'keep'

/** The settings of an LLM rule besides its limits. */
export interface LlmSettings {
  /** Upper bound of one completion; undefined: none. */
  readonly maxCompletionTokens: number | undefined
  readonly withoutUsage: WithoutUsage
  readonly streaming: StreamingSettings
}

interface StreamingSettings {
  readonly enabled: boolean
  readonly enforceMidStream: boolean
  /** How many tokens pass between two checks. */
  readonly bufferTokens: number
  readonly onLimitExceeded: 'graceful_close' | 'error_chunk'
  readonly includePartialUsage: boolean
}
