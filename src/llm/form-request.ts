import type { LlmEndpoint } from './endpoints.ts'
import { LlmRequestReader } from './llm-request.ts'

const [CR, LF, DASH] = [13, 10, 45]
/** The header fields before a file never take this many bytes. */
const MAX_HEAD_BYTES = 1024
const NO_HEAD = -1

// RFC 2046 5.1.1: a quoted boundary may contain these characters (we do not accept the space); an unquoted one must be a token (RFC 9110 5.6.2). No
// other parameter is accepted, because readers could then choose different boundaries.
const FORM = /^multipart\/form-data *; *boundary=(?:"([0-9A-Za-z'()+_,./:=?-]{1,70})"|([0-9A-Za-z'+_.-]{1,70}))$/i
// RFC 7578 4.2: the field must be exactly as HTTP clients write it, so that no reader takes the part for a text field.
const FILE = /^content-disposition: *form-data; *name="[^"\\]*"; *filename="(?:[^"\\]|\\.)+"(?:; *filename\*=[^\s;"]*'[^\s;"']+)?$/i
const NAMES_DISPOSITION = /content-disposition/i

/**
 * Returns the boundary of an upload: a body that is labelled as multipart/form-data and begins and ends as its label says. Returns undefined for any
 * other body, so that a false label makes nothing cheaper. No JSON text begins like an upload.
 */
export function boundaryOf(contentType: string | undefined, body: Uint8Array): string | undefined {
  const [, quoted, boundary = quoted] = FORM.exec(contentType ?? '') ?? []
  if (boundary === undefined) return undefined
  let end = body.length
  if (body[end - 2] === CR && body[end - 1] === LF) end -= 2
  const isForm = isAt(body, 0, `--${boundary}\r\n`) && isAt(body, end - boundary.length - 6, `\r\n--${boundary}--`)
  return isForm ? boundary : undefined
}

function isAt(bytes: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false
  return true
}

/**
 * Reads an upload while its bytes arrive. The files in it are not part of the prompt; everything else counts as text, as in any other body that is
 * not JSON. A part that readers could interpret differently does not count as a file.
 */
export class FormRequestReader {
  readonly #rest: LlmRequestReader
  readonly #delimiter: DelimiterSearch
  /** Bytes after a delimiter, while they may still be the header fields of a part. */
  readonly #head = new Uint8Array(MAX_HEAD_BYTES)
  #headBytes = NO_HEAD
  #isInFile = false

  constructor(boundary: string, endpoint?: LlmEndpoint) {
    this.#rest = new LlmRequestReader('utf8', endpoint)
    this.#delimiter = new DelimiterSearch(`--${boundary}`)
  }

  push(bytes: Uint8Array, from: number, to: number): void {
    let start = from
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!
      if (this.#delimiter.endsWith(byte)) {
        // Some readers need no line end before the delimiter, so it ends a file wherever it occurs.
        if (this.#isInFile) start = at + 1
        this.#isInFile = false
        this.#headBytes = 0
      } else if (this.#headBytes !== NO_HEAD && this.#endsFileHead(byte)) {
        this.#isInFile = true
        this.#rest.push(bytes, start, at + 1)
      }
    }
    if (!this.#isInFile) this.#rest.push(bytes, start, to)
  }

  get isBeyondLimits(): boolean {
    return this.#rest.isBeyondLimits
  }

  end(): ReturnType<LlmRequestReader['end']> {
    const rest = this.#rest.end()
    return typeof rest === 'string' ? rest : { ...rest, isUpload: true, isGrowable: false }
  }

  /** Returns whether this byte ends the header fields of a file, so that the file's content follows. */
  #endsFileHead(byte: number): boolean {
    const head = this.#head
    head[this.#headBytes++] = byte
    const end = this.#headBytes
    const isWhole = byte === LF && head[end - 2] === CR && head[end - 3] === LF && head[end - 4] === CR
    if (isWhole || end === MAX_HEAD_BYTES) this.#headBytes = NO_HEAD
    return isWhole && isFileHead(String.fromCharCode(...head.subarray(0, end)))
  }
}

function isFileHead(head: string): boolean {
  const [before, ...lines] = head.slice(0, -4).split('\r\n')
  const named = lines.filter((line) => NAMES_DISPOSITION.test(line))
  return before === '' && named.length === 1 && FILE.test(named[0]!) && !lines.some((line) => /^\s|[\r\n]/.test(line))
}

/** Finds a text in bytes that arrive one by one, in time linear in their number (Knuth, Morris and Pratt). */
class DelimiterSearch {
  readonly #text: Uint8Array
  /** For each length of a match, the next shorter length whose bytes end the same way. */
  readonly #shorter: Uint8Array
  #matched = 0

  constructor(text: string) {
    this.#text = Uint8Array.from(text, (letter) => letter.charCodeAt(0))
    this.#shorter = new Uint8Array(text.length + 1)
    for (let at = 1; at < text.length; at++) {
      this.#matched = this.#next(this.#text[at]!)
      this.#shorter[at + 1] = this.#matched
    }
    this.#matched = 0
  }

  /** Returns whether this byte completes the text. */
  endsWith(byte: number): boolean {
    if (this.#matched === 0 && byte !== DASH) return false
    this.#matched = this.#next(byte)
    return this.#matched === this.#text.length
  }

  #next(byte: number): number {
    let matched = this.#matched
    while (matched > 0 && this.#text[matched] !== byte) matched = this.#shorter[matched]!
    return this.#text[matched] === byte ? matched + 1 : 0
  }
}
