import { JsonScanner } from './json-scanner.ts'
import { fieldsOf, JsonSizes, type Reading, sum } from './json-sizes.ts'
import { type Charset, unitsOf } from './json-string.ts'
import { SCAN_LIMITS } from './scan-limits.ts'
import { estimatedTokens, MAX_TOKENS } from './tokens.ts'

/** What a request's body says about its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most that it asks for, over all choices; undefined when it sets no bound. */
  readonly requestedTokens: number | undefined
  /** How many choices it asks for. */
  readonly choices: number
  /** The body has `stream`, neither `false` nor null, or it is no JSON to us and may say so to a backend that reads more than we do. */
  readonly isStream: boolean
  /** Undefined where it is no text, or one above 256 UTF-16 units. */
  readonly model: string | undefined
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']
const CHARACTERS_PER_TOKEN = 4
/** Where a message or a part of it keeps text, and where it keeps further parts. */
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content']
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Content inside content, such as a tool's result inside a message: deeper than any API nests it. */
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
 * Reads chat, completions, embeddings, Responses and Anthropic requests alike, by the fields that are there, while their
 * bytes come.
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

  /** Nothing that comes will be read any more. */
  get isBeyondLimits(): boolean {
    return this.#scanner.isBeyondLimits
  }

  end(): LlmRequest | 'body_too_large' | 'repeated_descriptor' | 'bad_request' {
    const isJson = this.#scanner.end()
    if (this.#scanner.isBeyondLimits) return 'body_too_large'
    const sizes = this.#sizes
    if (!isJson) return unreadable(this.#scanner.spelledCharacters)
    // Of two values one reader takes the first and another the last.
    if (sizes.hasRepeatedName) return 'repeated_descriptor'
    // `Max_Tokens` is nothing to most readers, and max_tokens to some.
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

  /** Of the fields that are known; without any, of the whole body. */
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

/** A byte order mark, UTF-16, `NaN`, a coding that we do not know: there are backends that take each of them. */
function unreadable(characters: number): LlmRequest {
  const promptTokens = estimatedTokens(characters)
  return { promptTokens, requestedTokens: undefined, choices: 1, isStream: characters > 0, model: undefined }
}

/** Text, a list of texts, messages and their parts. A number in a list is a token that the client has made itself. */
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
