import type { Reason } from '../../engine/reasons.ts'
import { endOfToken, endOfValue, isSameName, isSameText } from '../../http/characters.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../../request/view.ts'
import type { Question } from './decision-endpoint.ts'
import { bytesOf, CONNECTION, CONTENT_LENGTH, FOREIGN, HOST, ORIGINAL_HOST, ORIGINAL_METHOD, ORIGINAL_URI } from './field-names.ts'

/** What `read` answers in place of where the head ends. */
export const INCOMPLETE = -1
/** Not for this wire: `node:http` shall look at it. */
export const OTHER = -2

/** Longer heads are for `node:http`, whose own bound is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

const START_LINE = bytesOf('POST /v1/decision HTTP/1.1\r\n')
const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const COLON = 0x3a

/** For each field: where its name begins and ends, where its value begins and ends. */
const FIELD_INTS = 4
const USUAL_FIELDS = 32
const ABSENT = -1
const NO_BYTES = bytesOf('')

/** 1 for the lengths of names that mean something here. Longer names mean nothing. */
const KNOWN_LENGTHS = new Uint8Array(MAX_HEAD_BYTES)
for (const name of [HOST, CONNECTION, CONTENT_LENGTH, ORIGINAL_METHOD, ORIGINAL_URI, ORIGINAL_HOST, ...FOREIGN])
  KNOWN_LENGTHS[name.length] = 1

/**
 * Reads heads of the one kind that the fast wire answers, and is the question that the last of them asks. It is used
 * again for the next. Whatever is not certainly a plain `POST /v1/decision` without a body is OTHER; nothing is repaired.
 */
export class HeadReader implements Question, RequestView {
  #bytes: Uint8Array = NO_BYTES
  /** The same, a character a byte, as `node:http` reads them. */
  #text = ''
  #fields = new Int32Array(USUAL_FIELDS * FIELD_INTS)
  /** How many integers of `#fields` are in use. */
  #used = 0
  #hasOwnHost = false
  #hasLength = false
  #hasConnection = false
  // Places in `#fields`.
  #method = ABSENT
  #uri = ABSENT
  #host = ABSENT
  #repeated: Reason | undefined

  /** From now on heads are read from these bytes. */
  begin(bytes: Buffer): void {
    this.#bytes = bytes
    this.#text = bytes.toString('latin1')
  }

  /** Lets go of what was read. */
  clear(): void {
    this.#bytes = NO_BYTES
    this.#text = ''
    if (this.#fields.length > USUAL_FIELDS * FIELD_INTS) this.#fields = new Int32Array(USUAL_FIELDS * FIELD_INTS)
    this.#forget()
  }

  /**
   * Reads the head that begins at `from`; answers where it ends, INCOMPLETE or OTHER. A piece of a head is OTHER as soon as
   * `node:http` might object to it, for that answers then and not when the rest has come.
   */
  read(from: number): number {
    const bytes = this.#bytes
    const startLine = START_LINE
    for (let i = 0; i < startLine.length; i++) {
      if (from + i === bytes.length) return INCOMPLETE
      if (bytes[from + i] !== startLine[i]) return OTHER
    }
    this.#forget()
    const limit = Math.min(bytes.length, from + MAX_HEAD_BYTES)
    const cut = bytes.length - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
    let at = from + START_LINE.length
    while (at < limit) {
      const nameAt = at
      at = endOfToken(bytes, at, limit)
      if (at === limit) return cut
      if (at > nameAt) {
        if (bytes[at] !== COLON) return OTHER
        const nameEnd = at++
        if (at < limit && bytes[at] === SPACE) at++
        const valueAt = at
        at = endOfValue(bytes, at, limit)
        // Only the usual single space is known here, not all the white space that may surround a value (RFC 9112 5.1).
        if (at > valueAt && (bytes[valueAt] === SPACE || (at < limit && bytes[at - 1] === SPACE))) return OTHER
        const field = this.#used
        if (field === this.#fields.length) this.#grow()
        const fields = this.#fields
        fields[field] = nameAt
        fields[field + 1] = nameEnd
        fields[field + 2] = valueAt
        fields[field + 3] = at
        this.#used = field + FIELD_INTS
        // The length tells nearly all names apart.
        if (KNOWN_LENGTHS[nameEnd - nameAt] === 1 && !this.#note(field, nameAt, nameEnd - nameAt)) return OTHER
        if (at === limit) return cut
      }
      if (bytes[at] !== CR) return OTHER
      if (at + 1 === limit) return cut
      if (bytes[at + 1] !== LF) return OTHER
      const isEnd = at === nameAt
      at += 2
      if (isEnd) return this.#hasOwnHost ? at : OTHER
    }
    return cut
  }

  original(): RequestView | Reason {
    if (this.#repeated !== undefined) return this.#repeated
    if (this.#isEmpty(this.#method)) return 'missing_original_method'
    if (this.#isEmpty(this.#uri)) return 'missing_original_uri'
    return this
  }

  get method(): string {
    return this.#value(this.#method)
  }

  get uri(): string {
    return this.#value(this.#uri)
  }

  get host(): string {
    return this.#host === ABSENT ? '' : this.#value(this.#host)
  }

  header(name: string): FieldValue {
    const fields = this.#fields
    let value: string | undefined
    for (let field = 0; field < this.#used; field += FIELD_INTS) {
      if (fields[field + 1]! - fields[field]! !== name.length || !isSameText(this.#bytes, fields[field]!, name)) continue
      if (value === undefined) {
        value = this.#value(field)
        continue
      }
      const longer = withNextLine(name, value, this.#value(field))
      if (longer === REPEATED) return REPEATED
      value = longer
    }
    return value
  }

  cookie(): string | undefined {
    return this.header('cookie') as string | undefined
  }

  #forget(): void {
    this.#used = 0
    this.#hasOwnHost = false
    this.#hasLength = false
    this.#hasConnection = false
    this.#method = ABSENT
    this.#uri = ABSENT
    this.#host = ABSENT
    this.#repeated = undefined
  }

  /** Returns false for a field that makes the request, or the connection, something out of the ordinary. */
  #note(field: number, nameAt: number, length: number): boolean {
    const bytes = this.#bytes
    switch (length) {
      case 4:
        return !isSameName(bytes, nameAt, HOST) || this.#noteOwnHost()
      case 10:
        return !isSameName(bytes, nameAt, CONNECTION) || this.#noteConnection(field)
      case 14:
        if (isSameName(bytes, nameAt, ORIGINAL_URI)) return this.#noteUri(field)
        return !isSameName(bytes, nameAt, CONTENT_LENGTH) || this.#noteLength(field)
      case 15:
        return !isSameName(bytes, nameAt, ORIGINAL_HOST) || this.#noteHost(field)
      case 17:
        if (isSameName(bytes, nameAt, ORIGINAL_METHOD)) return this.#noteMethod(field)
        return this.#isOurs(nameAt, length)
      default:
        return this.#isOurs(nameAt, length)
    }
  }

  #isOurs(nameAt: number, length: number): boolean {
    return !FOREIGN.some((name) => name.length === length && isSameName(this.#bytes, nameAt, name))
  }

  #noteOwnHost(): boolean {
    if (this.#hasOwnHost) return false
    this.#hasOwnHost = true
    return true
  }

  #noteConnection(field: number): boolean {
    if (this.#hasConnection) return false
    this.#hasConnection = true
    return this.#value(field).toLowerCase() === 'keep-alive'
  }

  #noteLength(field: number): boolean {
    if (this.#hasLength) return false
    this.#hasLength = true
    return this.#value(field) === '0'
  }

  #noteMethod(field: number): boolean {
    if (this.#method !== ABSENT) this.#repeated ??= 'repeated_original_method'
    this.#method = field
    return true
  }

  #noteUri(field: number): boolean {
    if (this.#uri !== ABSENT) this.#repeated ??= 'repeated_original_uri'
    this.#uri = field
    return true
  }

  #noteHost(field: number): boolean {
    if (this.#host !== ABSENT) this.#repeated ??= 'repeated_original_host'
    this.#host = field
    return true
  }

  #grow(): void {
    const larger = new Int32Array(this.#fields.length * 2)
    larger.set(this.#fields)
    this.#fields = larger
  }

  #isEmpty(field: number): boolean {
    return field === ABSENT || this.#fields[field + 2] === this.#fields[field + 3]
  }

  #value(field: number): string {
    return this.#text.slice(this.#fields[field + 2]!, this.#fields[field + 3]!)
  }
}
