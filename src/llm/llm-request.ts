import type { DialectName } from './dialects/dialect.ts'
import { GEMINI_FORMAT } from './dialects/gemini-request.ts'
import { PREDICTION_FORMAT } from './dialects/predictions.ts'
import { AMBIGUOUS_MODEL, type LlmEndpoint, plainModel } from './endpoints.ts'
import { JsonEncoding } from './json-encoding.ts'
import { JsonScanner, SCAN_LIMITS } from './json-scanner.ts'
import { JsonSizes, MAX_KEPT_NAMES, TRUE } from './json-sizes.ts'
import type { Charset } from './json-string.ts'
import { References } from './references.ts'
import { isNoCount, OPEN_FORMAT, type RequestFormat } from './request-format.ts'
import { estimatedTokens, MAX_TOKENS, type TokenWeights } from './usage.ts'

/** Facts in a request's body that determine its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most completion tokens that the request asks for, over all choices; undefined if it sets no limit. */
  readonly requestedTokens: number | undefined
  /** Set if it sets no limit, but states one that its API does not have: servers may ignore it or obey it, so that it only makes a reservation larger. */
  readonly foreignTokens?: number | undefined
  /** Number of choices that it asks for, over all of its prompts. */
  readonly choices: number
  /**
   * Whether the path asks for a stream, or the body has a `stream` that is neither `false` nor null. Also true if we cannot read a non-empty body as JSON,
   * because a more lenient backend may find one.
   */
  readonly isStream: boolean
  /** The model in the path if it names one, else that in the body. Undefined if it is missing, is not a string, or is longer than 256 UTF-16 units. */
  readonly model: string | undefined
  /** Whether we cannot read the body as JSON, so that a more lenient backend may find any model in it. */
  readonly isUnreadable?: boolean
  /** Position in the body's bytes where the name `stream_options` ends; 0 if there is no such name, undefined if the bytes are not UTF-8. */
  readonly streamOptionsAt?: number | undefined
  /** Positions in the body's bytes where the names of its models end; undefined if the bytes are not UTF-8 or have too many of them. */
  readonly modelsAt?: readonly number[] | undefined
  /** Whether the requested work continues after the response has ended. */
  readonly isBackground?: boolean
  /** Whether the body has a field for a prompt, even if we find no text there. */
  readonly hasPrompt?: boolean
  /** Whether it refers to a prompt, or a part of one, that lies elsewhere, so that `promptTokens` does not include it. */
  readonly hasUnseenPrompt?: boolean | undefined
  /** Whether the body is a form. */
  readonly isUpload?: boolean
  /** Whether the body has messages or a prompt, which no request for embeddings has. */
  readonly isForText?: boolean
  /** The API whose endings the client understands, if the path says so. */
  readonly dialect?: DialectName | undefined
  /** Whether this is a request of Google's for embeddings, whose responses often have neither usage nor text. */
  readonly isEmbedding?: boolean | undefined
  /** Whether the path is one of Vertex's `predict`, whose responses have a form of their own. */
  readonly isPrediction?: boolean | undefined
  /**
   * Whether it certainly asks for a stream of events that we can cut, with all of its work done by the end of that stream: then its reservation may grow
   * while the stream passes.
   */
  readonly isGrowable?: boolean | undefined
}

/** Returns whether a response to this request should contain a count or a text. Other requests list, upload or look something up. */
export function asksForTokens({ promptTokens, requestedTokens, hasPrompt, isUpload }: LlmRequest): boolean {
  return isUpload !== true && (promptTokens > 0 || hasPrompt === true || requestedTokens !== undefined)
}

/** Unknown fields count only if together they exceed this: shorter ones are names and switches that we do not know, not a prompt. */
const FREE_CHARACTERS = 256
/** White space around the JSON costs no tokens but takes memory. */
const MAX_PADDING_BYTES = 64 * 1024

/** Reads the body of a request while its bytes arrive. */
export class LlmRequestReader {
  readonly #charset: Charset
  readonly #endpoint: LlmEndpoint
  readonly #format: RequestFormat
  readonly #sizes: JsonSizes
  readonly #references: References
  readonly #scanner: JsonScanner
  readonly #encoding = new JsonEncoding((bytes, from, to) => this.#scanner.push(bytes, from, to))

  /** With `latin1`, the body has a content coding that we cannot decode: whatever its bytes look like, the backend finds something else in them. */
  constructor(charset: Charset = 'utf8', endpoint: LlmEndpoint = {}) {
    this.#charset = charset
    this.#endpoint = endpoint
    this.#format = formatOf(endpoint)
    this.#sizes = new JsonSizes(this.#format.fields)
    this.#references = new References(this.#sizes)
    this.#scanner = new JsonScanner(this.#references, SCAN_LIMITS, charset)
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
    if (this.#endpoint.model === AMBIGUOUS_MODEL) return 'bad_request'
    if (!isJson || this.#charset === 'latin1') return this.#unreadable()
    if (this.#scanner.paddingBytes > MAX_PADDING_BYTES) return 'body_too_large'
    const sizes = this.#sizes
    const format = this.#format
    // If a name is repeated, one reader uses the first value and another the last.
    if (sizes.hasRepeatedName || format.isRepeated(sizes) || this.#namesAnotherModel()) return 'repeated_descriptor'
    // Most readers ignore `Max_Tokens`, but some read it as max_tokens.
    if (sizes.hasNameInOtherCase) return 'bad_request'
    const { dialect, isStream, isEmbedding, isPrediction, model = sizes.keptText } = this.#endpoint
    const hasPrompt = format.prompts.some((index) => sizes.has(index))
    const isForText = format.texts.some((index) => sizes.has(index))
    const stated = format.choices(sizes)
    const choices = Math.min(Math.max(1, ...stated) * Math.max(sizes.marked, 1), MAX_TOKENS)
    const requestedTokens = stated.some(isNoCount) ? undefined : this.#requestedTokens(choices)
    return {
      promptTokens: estimatedTokens(this.#promptCharacters()),
      requestedTokens,
      foreignTokens: requestedTokens === undefined ? this.#statedTokens(choices) : undefined,
      choices,
      isStream: isStream === true || this.#isSet(format.stream),
      model,
      isBackground: this.#isSet(format.background),
      hasPrompt,
      isForText,
      hasUnseenPrompt: this.#refersElsewhere(hasPrompt),
      streamOptionsAt: this.#streamOptionsAt(),
      modelsAt: this.#modelsAt(),
      dialect,
      isEmbedding: isForText ? undefined : isEmbedding,
      isPrediction,
      isGrowable: this.#isGrowable(),
    }
  }

  /** What only has parts of a prompt, such as files, without one manages them. */
  #refersElsewhere(hasPrompt: boolean): true | undefined {
    const refers = this.#references.hasPrompt || (this.#references.hasParts && hasPrompt)
    return (refers && this.#endpoint.isPrediction !== true) || undefined
  }

  /** A `stream` that only lenient backends take for true does not count, because the response could as well be whole. */
  #isGrowable(): true | undefined {
    const { stream, prompts, background } = this.#format
    const isStream = stream !== undefined && this.#sizes.size(stream) === TRUE
    return isStream && prompts.some((index) => this.#sizes.has(index)) && !this.#isSet(background) ? true : undefined
  }

  #isSet(index: number | undefined): boolean {
    return index !== undefined && this.#sizes.size(index) > 0
  }

  /** Where the path names the model, a body may not name another one: providers obey the path, but not every backend does. */
  #namesAnotherModel(): boolean {
    const { model, ignoresBodyModel } = this.#endpoint
    const { keptText, hasKeptTexts } = this.#sizes
    if (model === undefined || ignoresBodyModel === true) return false
    if (this.#sizes.size(this.#format.model) >= 0 && keptText === undefined) return true
    return hasKeptTexts || (keptText !== undefined && keptText !== '' && plainModel(keptText) !== model)
  }

  #streamOptionsAt(): number | undefined {
    const { skipped } = this.#encoding
    const index = this.#format.streamOptions
    if (skipped === undefined) return undefined
    if (index === undefined || !this.#sizes.has(index)) return 0
    return skipped + this.#sizes.nameEnds[index]!
  }

  #modelsAt(): readonly number[] | undefined {
    const { skipped } = this.#encoding
    const { keptNameEnds = [] } = this.#sizes
    if (skipped === undefined || keptNameEnds.length > MAX_KEPT_NAMES) return undefined
    return skipped === 0 ? keptNameEnds : keptNameEnds.map((end) => skipped + end)
  }

  /** Counts the known fields and the text in unknown ones. A body without any known prompt field counts as a whole. */
  #promptCharacters(): number {
    const sizes = this.#sizes
    const { prompts, definitions } = this.#format
    if (!prompts.some((index) => sizes.has(index))) return this.#scanner.spelledCharacters
    let characters = sizes.otherSize > FREE_CHARACTERS ? sizes.otherSize : 0
    for (const index of prompts) characters += Math.max(0, sizes.size(index))
    for (const index of definitions) characters += Math.max(0, sizes.size(index))
    return characters
  }

  /**
   * Backends differ in which bound they obey, so the largest counts. They also differ in how they treat a bound that is not a positive number, so the
   * request then counts as unbounded.
   */
  #requestedTokens(choices: number): number | undefined {
    const isBounded = !this.#format.bounds(this.#sizes).some(isNoCount) && this.#format.hasOwnBound(this.#sizes)
    return isBounded ? this.#statedTokens(choices) : undefined
  }

  /** Returns the largest number that is stated as a bound, whatever it means to the server. */
  #statedTokens(choices: number): number | undefined {
    const largest = Math.max(...this.#format.bounds(this.#sizes))
    return largest > 0 ? Math.min(largest * choices, MAX_TOKENS) : undefined
  }

  /**
   * Describes a body that we cannot read as JSON. It may be in UTF-32, contain `NaN` or have an unknown content coding, and some backends accept each
   * of these. Where they ignore its model, that of the path is certain.
   */
  #unreadable(): LlmRequest {
    const { model, ignoresBodyModel, isStream, isEmbedding, isPrediction, dialect } = this.#endpoint
    const characters = this.#scanner.spelledCharacters
    const isUnreadable = characters > 0
    return {
      promptTokens: estimatedTokens(characters),
      requestedTokens: undefined,
      choices: 1,
      isStream: isUnreadable || isStream === true,
      model: ignoresBodyModel === true || !isUnreadable ? model : undefined,
      isUnreadable,
      hasUnseenPrompt: this.#refersElsewhere(true),
      dialect,
      isEmbedding,
      isPrediction,
    }
  }
}

function formatOf({ dialect, isPrediction }: LlmEndpoint): RequestFormat {
  if (dialect === 'gemini') return GEMINI_FORMAT
  return isPrediction === true ? PREDICTION_FORMAT : OPEN_FORMAT
}

/** The amount charged if the provider's count is missing: our estimate, or at least the reserved amount. */
export type WithoutUsage = 'estimate' | 'keep'

/** Settings of a rule that watches streams, besides its limits. */
export interface LlmSettings {
  /** Upper bound of one completion; undefined if there is none. */
  readonly maxCompletionTokens: number | undefined
  readonly withoutUsage: WithoutUsage
  /** How much each kind of token counts; undefined if every token counts once. */
  readonly weights?: TokenWeights | undefined
  /** Set if reservations grow while streams pass; undefined if they hold the longest completion from the start. */
  readonly reserve?: ReserveSettings | undefined
  readonly streaming: StreamingSettings
}

/** How reservations grow, in completion tokens. */
export interface ReserveSettings {
  /** What a stream reserves before it begins. */
  readonly first: number
  /** What it asks for at a time while it passes. */
  readonly step: number
}

interface StreamingSettings {
  readonly enabled: boolean
  readonly enforceMidStream: boolean
  /** Number of tokens that pass between two checks. */
  readonly bufferTokens: number
  readonly onLimitExceeded: 'graceful_close' | 'error_chunk'
  readonly includePartialUsage: boolean
}
