import { readGeminiModel, readGeminiUsage } from './dialects/gemini.ts'
import { JsonEncoding } from './json-encoding.ts'
import { JsonScanner, RESPONSE_LIMITS } from './json-scanner.ts'
import { JsonSizes } from './json-sizes.ts'
import * as format from './response-format.ts'
import { StreamFilter } from './stream-filter.ts'
import { newTally, readModel, readUsage, type Tally, type TallyReader } from './usage.ts'

/**
 * Reads the responses of all APIs but `predict`, by the fields that are present. Memory does not grow with the response. A stream of events that is labelled
 * as something else is read as one.
 */
export class LlmResponseReader implements TallyReader {
  readonly #sizes: JsonSizes
  readonly #scanner: JsonScanner
  readonly #encoding = new JsonEncoding((bytes, from, to) => this.#read(bytes, from, to))
  #kind: 'unknown' | 'json' | 'stream' = 'unknown'
  #stream: StreamFilter<never> | undefined
  readonly #seeksId: boolean
  readonly #tally = newTally()

  /** `ids` are those of earlier results. */
  constructor(ids: readonly string[] = []) {
    this.#seeksId = ids.length > 0
    this.#sizes = new JsonSizes(this.#seeksId ? format.responseWithId(ids) : format.RESPONSE, format.GEMINI_ITEM)
    this.#scanner = new JsonScanner(this.#sizes, RESPONSE_LIMITS)
    // Each response of a list has the counts so far, and the largest hold, as in a stream of events.
    this.#sizes.onItem = () => readGeminiUsage(format.keptGeminiUsage(this.#sizes), this.#tally)
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    this.#encoding.push(bytes, from, to)
  }

  get isUnderWay(): boolean {
    return this.#sizes.size(format.STATUS) > 0
  }

  get isLookedUp(): boolean {
    return this.#seeksId && this.#sizes.size(format.ID) > 0
  }

  get hasError(): boolean {
    return this.#stream?.hasFailed ?? this.#sizes.size(format.ERROR) > 0
  }

  end(): Tally {
    this.#encoding.end()
    this.#stream?.end()
    if (this.#stream !== undefined) return this.#stream.tally
    if (!this.#scanner.end()) return newTally()
    const tally = this.#tally
    tally.characters = this.#characters(this.#sizes.size(format.TYPE) === 1)
    this.#readRest(tally)
    // A count is one of all the text, wherever it stands in a list.
    if (tally.completionTokens !== undefined) tally.countedCharacters = tally.characters
    return tally
  }

  /** Everything received so far counts. Without a type, it may still be an Anthropic message. */
  breakOff(): Tally {
    this.#encoding.end()
    if (this.#stream !== undefined) return this.#stream.tally
    this.#scanner.breakOff()
    const tally = this.#tally
    this.#readRest(tally)
    // This is set after the count is read, so that the larger of the two applies.
    tally.characters = this.#characters(this.#sizes.size(format.TYPE) !== 0)
    return tally
  }

  #read(bytes: Uint8Array, from: number, to: number): void {
    let at = from
    if (this.#kind === 'unknown') {
      while (at < to && isSpace(bytes[at]!)) at++
      if (at === to) return
      this.#kind = STREAM_INITIALS.has(bytes[at]!) ? 'stream' : 'json'
      if (this.#kind === 'stream') this.#stream = new StreamFilter({ rules: [], promptEstimate: 0, isActivated: false })
    }
    if (this.#stream === undefined) this.#scanner.push(bytes, at, to)
    else this.#stream.push(Buffer.from(bytes.buffer, bytes.byteOffset + at, to - at))
  }

  #characters(isMessage: boolean): number {
    const sizes = this.#sizes
    let characters = sizes.listSize + (isMessage ? Math.max(0, sizes.size(format.CONTENT)) : 0)
    for (const index of format.TEXTS) characters += Math.max(0, sizes.size(index))
    return characters
  }

  #readRest(tally: Tally): void {
    const sizes = this.#sizes
    if (sizes.has(format.MODEL)) readModel(sizes.keptText, tally)
    else readGeminiModel(sizes.keptText, tally)
    if (sizes.size(format.USAGE) === 1) readUsage(format.keptUsage(sizes), tally)
    const hasMetadata = sizes.isList || sizes.size(format.METADATA) === 1 || sizes.size(format.METADATA_IN_SNAKE_CASE) === 1
    if (hasMetadata) readGeminiUsage(format.keptGeminiUsage(sizes), tally)
  }
}

/** What events begin with, and no JSON does: the first letters of their fields, and the colon of a comment. */
const STREAM_INITIALS = new Set(Array.from('deir:', (letter) => letter.charCodeAt(0)))

function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)
}
