import { JsonScanner } from './json-scanner.ts'
import { fieldsOf, JsonSizes, type Reading, sum } from './json-sizes.ts'
import { type Charset, unitsOf } from './json-string.ts'
import { SCAN_LIMITS } from './scan-limits.ts'
import { estimatedTokens, MAX_TOKENS } from './tokens.ts'

/** What a request's body says about its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most that it requests, over all choices; undefined where it sets no limit. */
  readonly requestedTokens: number | undefined
  /** How many choices it requests. */
  readonly choices: number
  /** The body has a `stream` that is neither `false` nor null; or it is not JSON for us, and a more lenient backend may find one. */
  readonly isStream: boolean
  /** Undefined where it is not a string, or longer than 256 UTF-16 units. */
  readonly model: string | undefined
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']
const CHARACTERS_PER_TOKEN = 4
// The fields of a message, or of a part of it, that hold text, and those that hold further parts.
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content']
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Of content inside content, such as a tool's result inside a message. Deeper than any API nests it. */
const MAX_DEPTH = 8

const TEXT: Reading = { text: 'characters' }
const NUMBER: Reading = { number: 'value' }
const PROMPT = promptPart(0)
const REQUEST = fieldsOf({
  ...readings(PROMPT_FIELDS, PROMPT),
  ...readings(MAX_FIELDS, NUMBER),
  n: NUMBER,
  stream: { isFlag: true },
  model: { text: 'kept' },
})
const [N, STREAM] = [REQUEST.names.indexOf('n'), REQUEST.names.indexOf('stream')]

/**
 * Reads chat, completions, embeddings, Responses and Anthropic requests by the fields that are present, while their bytes
 * arrive.
 */
export class LlmRequestReader {
  readonly #sizes = new JsonSizes(REQUEST)
  readonly #scanner: JsonScanner

  constructor(charset: Charset = 'utf8') {
    this.#scanner = new JsonScanner(this.#sizes, SCAN_LIMITS, charset)
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    this.#scanner.push(bytes, from, to)
  }

  /** No further bytes will be read. */
  get isBeyondLimits(): boolean {
    return this.#scanner.isBeyondLimits
  }

  end(): LlmRequest | 'body_too_large' | 'repeated_descriptor' | 'bad_request' {
    const isJson = this.#scanner.end()
    if (this.#scanner.isBeyondLimits) return 'body_too_large'
    const sizes = this.#sizes
    if (!isJson) return unreadable(this.#scanner.spelledCharacters)
    // Of two values, one reader takes the first and another the last.
    if (sizes.hasRepeatedName) return 'repeated_descriptor'
    // Most readers ignore `Max_Tokens`, and some read it as max_tokens.
    if (sizes.hasNameInOtherCase) return 'bad_request'
    const choices = this.#positive(N) ?? 1
    return {
      promptTokens: estimatedTokens(this.#promptCharacters()),
      requestedTokens: this.#requestedTokens(choices),
      choices,
      isStream: sizes.size(STREAM) === 1,
      model: sizes.keptText,
    }
  }

  /** Of the known fields; without any, of the whole body. */
  #promptCharacters(): number {
    let isKnown = false
    let characters = 0
    for (let i = 0; i < PROMPT_FIELDS.length; i++) {
      isKnown ||= this.#sizes.has(i)
      characters += Math.max(0, this.#sizes.size(i))
    }
    return isKnown ? characters : this.#scanner.spelledCharacters
  }

  #requestedTokens(choices: number): number | undefined {
    let largest = 0
    for (let i = 0; i < MAX_FIELDS.length; i++) largest = Math.max(largest, this.#positive(PROMPT_FIELDS.length + i) ?? 0)
    return largest === 0 ? undefined : Math.min(largest * choices, MAX_TOKENS)
  }

  #positive(index: number): number | undefined {
    const value = this.#sizes.size(index)
    return value > 0 ? Math.min(value, MAX_TOKENS) : undefined
  }
}

/** With a byte order mark, in UTF-16, with `NaN`, in an unknown content coding: some backends accept each of them. */
function unreadable(characters: number): LlmRequest {
  const promptTokens = estimatedTokens(characters)
  return { promptTokens, requestedTokens: undefined, choices: 1, isStream: characters > 0, model: undefined }
}

/** A text, a list of texts, messages and their parts. A number in a list is a token id. */
function promptPart(depth: number): Reading {
  if (depth > MAX_DEPTH) return TEXT
  const inner = promptPart(depth + 1)
  const parts = TEXT_FIELDS.length + PART_FIELDS.length
  const fields = fieldsOf(
    { ...readings(TEXT_FIELDS, TEXT), ...readings(PART_FIELDS, inner), type: { text: { word: unitsOf('text') } }, data: TEXT },
    { size: (sizes, from) => sum(sizes, from, parts) + (sizes[from + parts] === 1 ? sum(sizes, from + parts + 1, 1) : 0) },
  )
  return { text: 'characters', list: { ...inner, number: CHARACTERS_PER_TOKEN }, fields }
}

function readings(names: readonly string[], reading: Reading): Record<string, Reading> {
  return Object.fromEntries(names.map((name) => [name, reading]))
}
