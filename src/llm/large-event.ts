import { TextSize } from '../text/text-size.ts'
import type { JsonObject } from './json.ts'
import { JsonScanner, RESPONSE_LIMITS } from './json-scanner.ts'
import { JsonSizes } from './json-sizes.ts'
import * as format from './response-format.ts'

/** Without base64. What repeats a whole response, with its tools and log probabilities, stays below this. */
const MAX_BYTES = 16 * 1024 * 1024

/** What a scanned event says: its text by its length, and the rest as the event that a dialect reads. */
export interface ScannedEvent {
  readonly characters: number
  readonly event: JsonObject
}

/** Reads an event that is not parsed, because it is too large for that or is not JSON in all strictness, while its bytes pass. It keeps none of them. */
export class LargeEvent {
  readonly #sizes = new JsonSizes(format.EVENT)
  readonly #scanner = new JsonScanner(this.#sizes, RESPONSE_LIMITS)
  readonly #lines = new DataLines((bytes, from, to) => this.#scanner.push(bytes, from, to))
  /** Its size outside of base64, for the case that it cannot be read, and how much of that was taken for text. */
  readonly size = new TextSize()
  #taken = 0

  push(bytes: Buffer, from: number, to: number): void {
    this.size.push(bytes, from, to)
    this.#lines.push(bytes, from, to)
  }

  get hasData(): boolean {
    return this.#lines.hasData
  }

  /** Whether it is larger than any event that has an end. It counts as text from then on. */
  get isEndless(): boolean {
    return this.size.bytes > MAX_BYTES
  }

  /** Returns the size that was not returned before. */
  takeSize(): number {
    const fresh = this.size.bytes - this.#taken
    this.#taken += fresh
    return fresh
  }

  /** Returns undefined if the data is no JSON object, or nested too deeply. */
  end(): ScannedEvent | undefined {
    if (this.#taken > 0 || !this.#scanner.end() || this.#sizes.isList) return undefined
    const type = format.EVENT_TYPES[this.#sizeOf('type') - 1]
    const text = SOUND.has(type) ? 0 : this.#sizeOf('delta')
    const characters = this.#sizeOf('choices') + this.#sizeOf('candidates') + text + this.#sizeOf('content_block')
    return { characters, event: this.#event(type) }
  }

  /** The members that dialects read beside text, where they look for them. */
  #event(type: string | undefined): JsonObject {
    const sizes = this.#sizes
    const [usage, usageMetadata] = [format.keptUsage(sizes), format.keptGeminiUsage(sizes)]
    const counted = { model: sizes.keptText, usage }
    const isFinished = sizes.marked > 0
    return {
      type,
      ...(this.#sizeOf('error') > 0 && { error: { message: '' } }),
      ...(this.#has('choices') && { choices: [{ finish_reason: isFinished ? 'stop' : null }], ...counted }),
      ...(this.#has('usage') && counted),
      ...(this.#has('candidates') && { candidates: [isFinished ? { finishReason: 'STOP' } : {}] }),
      ...(usageMetadata && { usageMetadata, modelVersion: sizes.keptText }),
      ...(this.#has('response') && { response: counted }),
      ...(this.#has('message') && { message: counted }),
    }
  }

  #has(name: string): boolean {
    return this.#sizes.size(format.EVENT.names.indexOf(name)) >= 0
  }

  #sizeOf(name: string): number {
    return Math.max(0, this.#sizes.size(format.EVENT.names.indexOf(name)))
  }
}

/** Deltas of these types are base64. */
const SOUND = new Set<string | undefined>(format.SOUND_TYPES)

/** Finds the value of the `data` lines of one event. Values of several lines are joined by line ends, as in `readEventData`. */
class DataLines {
  readonly #sink: (bytes: Uint8Array, from: number, to: number) => void
  /** Where in a line the next byte is: in its name, of which so many bytes were `data`, right behind the colon, in the value, or in a line that is skipped. */
  #state: 'name' | 'space' | 'value' | 'skipped' = 'name'
  #named = 0
  #marked = 0
  hasData = false

  constructor(sink: (bytes: Uint8Array, from: number, to: number) => void) {
    this.#sink = sink
  }

  push(bytes: Buffer, from: number, to: number): void {
    let at = from
    while (at < to) {
      if (this.#state === 'name') this.#readName(bytes[at++]!)
      else if (this.#state === 'space') {
        if (bytes[at] === SPACE) at++
        this.#state = 'value'
      } else {
        const start = at
        while (at < to && bytes[at] !== LF && bytes[at] !== CR) at++
        if (this.#state === 'value' && at > start) this.#sink(bytes, start, at)
        if (at < to) this.#beginLine()
        at++
      }
    }
  }

  #beginLine(): void {
    this.#state = 'name'
    this.#named = 0
  }

  #readName(byte: number): void {
    if (byte === LF || byte === CR) return this.#beginLine()
    if (!this.hasData && this.#named === 0 && byte === MARK[this.#marked]) {
      this.#marked++
      return
    }
    if (this.#named < NAME.length) {
      if (byte === NAME[this.#named]) this.#named++
      else this.#state = 'skipped'
    } else if (byte === COLON) this.#beginValue()
    else this.#state = 'skipped'
  }

  #beginValue(): void {
    if (this.hasData) this.#sink(LINE_END, 0, 1)
    this.hasData = true
    this.#state = 'space'
  }
}

const NAME = Buffer.from('data')
/** A stream may begin with a byte order mark. */
const MARK = Buffer.from('\ufeff')
const LINE_END = Buffer.from('\n')
const SPACE = 0x20
const COLON = 0x3a
const LF = 0x0a
const CR = 0x0d
