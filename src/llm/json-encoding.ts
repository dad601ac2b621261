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
