import { JsonScanner, SCAN_LIMITS } from './json-scanner.ts'
import { fieldsOf, JsonSizes, NO_COUNT, type Reading, sum } from './json-sizes.ts'
import { type Charset, unitsOf } from './json-string.ts'
import { estimatedTokens, MAX_TOKENS, type TokenWeights } from './usage.ts'

/** Facts in a request's body that determine its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most completion tokens that the request asks for, over all choices; undefined if it sets no limit. */
  readonly requestedTokens: number | undefined
  /** Number of choices that it asks for, over all of its prompts. */
  readonly choices: number
  /**
   * Whether the body has a `stream` that is neither `false` nor null. Also true if we cannot read a non-empty body as JSON, because a more lenient backend
   * may find one.
   */
  readonly isStream: boolean
  /** Undefined if the model is missing, is not a string, or is longer than 256 UTF-16 units. */
  readonly model: string | undefined
  /** Whether we cannot read the body as JSON, so that a more lenient backend may find any model in it. */
  readonly isUnreadable?: boolean
  /** Position in the body's bytes where the name `stream_options` ends; 0 if there is no such name, undefined if the bytes are not UTF-8. */
  readonly streamOptionsAt?: number | undefined
  /** Whether the requested work continues after the response has ended. */
  readonly isBackground?: boolean
  /** Whether the body has a field for a prompt, even if we find no text there. */
  readonly hasPrompt?: boolean
  /** Whether the body is a form. */
  readonly isUpload?: boolean
  /** Whether the body has messages or a prompt, which no request for embeddings has. */
  readonly isForText?: boolean
}

/** Returns whether a response to this request should contain a count or a text. Other requests list, upload or look something up. */
export function asksForTokens({ promptTokens, requestedTokens, hasPrompt, isUpload }: LlmRequest): boolean {
  return isUpload !== true && (promptTokens > 0 || hasPrompt === true || requestedTokens !== undefined)
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
/** Fields that the model also reads, exactly as they are written. */
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
/** Unknown fields count only if together they exceed this: shorter ones are names and switches that we do not know, not a prompt. */
const FREE_CHARACTERS = 256
/** White space around the JSON costs no tokens but takes memory. */
const MAX_PADDING_BYTES = 64 * 1024
const CHARACTERS_PER_TOKEN = 4
// Fields that contain text, and fields that contain further parts, in a message or in a part of one.
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content', 'reasoning', 'title', 'context']
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
const WRITTEN: Reading = { text: 'characters', written: 'objects and lists' }
const BOUND_READINGS = { ...readings(MAX_FIELDS, NUMBER), ...readings(CHOICES_FIELDS, NUMBER) }
const PROMPT = promptPart(0)
/** Each text, and each list of token ids, is a separate prompt. */
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

/** Reads chat, completions, embeddings, Responses and Anthropic requests while their bytes arrive. It recognises them by the fields that are present. */
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

  /** Whether a limit was exceeded, so that no further bytes will be read. */
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
    // If a name is repeated, one reader uses the first value and another the last.
    if (sizes.hasRepeatedName) return 'repeated_descriptor'
    // Most readers ignore `Max_Tokens`, but some read it as max_tokens.
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

  /** Counts the known fields and the text in unknown ones. A body without any known prompt field counts as a whole. */
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

  /**
   * Backends differ in which bound they obey, so the largest counts. They also differ in how they treat a bound that is not a positive number, so the
   * request then counts as unbounded.
   */
  #requestedTokens(choices: number): number | undefined {
    const stated = this.#stated(BOUNDS, MAX_FIELDS.length)
    const largest = Math.max(...stated)
    return largest < 0 || stated.some(isNoCount) || !this.#hasOwnBound() ? undefined : Math.min(largest * choices, MAX_TOKENS)
  }

  /**
   * Most servers ignore fields that their API does not define, so a body with messages or a prompt must have a chat bound, and one with `input` a
   * Responses bound. A body with none of these may have any bound.
   */
  #hasOwnBound(): boolean {
    const sizes = this.#sizes
    const isForText = sizes.has(MESSAGES) || sizes.has(PROMPT_TEXT)
    if (isForText && sizes.size(BOUNDS) < 0 && sizes.size(BOUNDS + 1) < 0) return false
    return !sizes.has(INPUT) || sizes.size(BOUNDS + 2) > 0
  }

  /** Returns the values of consecutive fields, in the outermost object and in the nested ones. */
  #stated(from: number, count: number): number[] {
    const stated: number[] = []
    for (let i = from; i < from + count; i++) {
      stated.push(this.#sizes.size(i))
      for (const nested of this.#sizes.keptSizes) if (nested !== undefined) stated.push(nested[i - BOUNDS]!)
    }
    return stated
  }
}

/** Whether a bound or a number of choices is present but is not a positive number. */
function isNoCount(size: number): boolean {
  return size === NO_COUNT || size === 0
}

/**
 * Describes a body that we cannot read as JSON. It may be in UTF-32, contain `NaN` or have an unknown content coding, and some backends accept each
 * of these.
 */
function unreadable(characters: number): LlmRequest {
  const promptTokens = estimatedTokens(characters)
  const isUnreadable = characters > 0
  return { promptTokens, requestedTokens: undefined, choices: 1, isStream: isUnreadable, model: undefined, isUnreadable }
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

/** Number of bytes that identify the encoding of JSON, whose first character is ASCII. */
const TELLING_BYTES = 4
const NOTHING = new Uint8Array(0)

type Decoder = InstanceType<typeof TextDecoder>
/** Receives UTF-8. */
type Sink = (bytes: Uint8Array, from: number, to: number) => void

/**
 * Passes JSON on as UTF-8, without a byte order mark. Some servers also read UTF-16, which they recognise, like Python's `json.loads`, by its byte
 * order mark or by the zeros in the first two characters. UTF-32 is passed on unchanged and therefore is not JSON.
 */
export class JsonEncoding {
  /** Number of bytes that were skipped before passing the rest on unchanged; undefined if the text was decoded. */
  skipped: number | undefined = 0
  readonly #sink: Sink
  /** Bytes that arrived before the encoding was known; undefined afterwards. */
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

  /** Must be called after the last byte. */
  end(): void {
    if (this.#first !== undefined) this.#tell(this.#first)
  }

  #begin(bytes: Uint8Array): void {
    // Bytes that are kept are copied, because the caller may reuse its buffer.
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
  // The same two bytes followed by two zeros are the byte order mark of UTF-32.
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? undefined : 'utf-16le'
  if (a === 0) return b === 0 ? undefined : 'utf-16be'
  if (b === 0) return c === 0 && d === 0 ? undefined : 'utf-16le'
  return undefined
}

/** The amount charged if the provider's count is missing: our estimate, or at least the reserved amount. */
export type WithoutUsage = 'estimate' | 'keep'

/** Settings of an LLM rule besides its limits. */
export interface LlmSettings {
  /** Upper bound of one completion; undefined if there is none. */
  readonly maxCompletionTokens: number | undefined
  readonly withoutUsage: WithoutUsage
  /** How much each kind of token counts; undefined if every token counts once. */
  readonly weights?: TokenWeights | undefined
  readonly streaming: StreamingSettings
}

interface StreamingSettings {
  readonly enabled: boolean
  readonly enforceMidStream: boolean
  /** Number of tokens that pass between two checks. */
  readonly bufferTokens: number
  readonly onLimitExceeded: 'graceful_close' | 'error_chunk'
  readonly includePartialUsage: boolean
}
