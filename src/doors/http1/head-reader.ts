import type { Door } from '../../decide/door.ts'
import type { Question } from '../../decide/question.ts'
import type { Reason } from '../../engine/reasons.ts'
import { endOfToken, endOfValue, isSameName, isSameText } from '../../http/characters.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../../request/view.ts'
import { hostEnd, hostStart } from '../original-url.ts'
import { INCOMPLETE, OTHER, StartLine } from './start-line.ts'
import {
  CONNECTION,
  CONTENT_LENGTH,
  type KnownField,
  NOT_PLAIN,
  ORIGINAL_HOST,
  ORIGINAL_METHOD,
  ORIGINAL_URI,
  OWN_HOST,
} from './wire-shape.ts'

/** Longer heads are for `node:http`, whose own bound is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const COLON = 0x3a

/** For each field: where its name begins and ends, where its value begins and ends. */
const FIELD_INTS = 4
const USUAL_FIELDS = 32
const ABSENT = -1
/** Before the fields, as if they were some without a name: what is read from the request line, or out of a field. */
const READ_METHOD = 0
const READ_URI = FIELD_INTS
const READ_HOST = 2 * FIELD_INTS
const FIRST_FIELD = 3 * FIELD_INTS
const NO_BYTES = new Uint8Array(0)
const KEEP_ALIVE = 'keep-alive'
const ZERO = '0'

/**
 * Reads the heads of plain questions, and is the question that the last of them asks; it is used again for the next. Whatever is
 * not certainly a question of a known shape without a body is OTHER; nothing is repaired.
 */
export class HeadReader implements Question, RequestView {
  #bytes: Uint8Array = NO_BYTES
  #end = 0
  /** Of the head that was read last. */
  #headAt = 0
  #headEnd = 0
  /** The same, a character a byte, as `node:http` reads them. */
  #text = ''
  #fields = new Int32Array(USUAL_FIELDS * FIELD_INTS)
  /** How many integers of `#fields` are in use. */
  #used = 0
  readonly #startLine = new StartLine()
  #hasLength = false
  #hasConnection = false
  // Places in `#fields`.
  #ownHost = ABSENT
  #method = ABSENT
  #uri = ABSENT
  #host = ABSENT
  #repeated: Reason | undefined

  /** From now on heads are read from these bytes, up to `end`. */
  begin(bytes: Buffer, end: number): void {
    this.#bytes = bytes
    this.#end = end
    this.#text = bytes.toString('latin1', 0, end)
  }

  /** To be called when the bytes may change while the head that was read last is still in use: that head is copied. */
  keepHead(): void {
    const from = this.#headAt
    const head = Buffer.from(this.#bytes.subarray(from, this.#headEnd))
    for (let i = 0; i < this.#used; i++) this.#fields[i]! -= from
    this.#bytes = head
    this.#text = head.toString('latin1')
    this.#end = head.length
    this.#headAt = 0
    this.#headEnd = head.length
  }

  /** Lets go of what was read. */
  clear(): void {
    this.#bytes = NO_BYTES
    this.#end = 0
    this.#text = ''
    if (this.#fields.length > USUAL_FIELDS * FIELD_INTS) this.#fields = new Int32Array(USUAL_FIELDS * FIELD_INTS)
    this.#forget()
  }

  /**
   * Reads the head that begins at `from`; returns where it ends, INCOMPLETE or OTHER. A piece of a head is OTHER as soon as
   * `node:http` might object to it, because that responds then, and not when the rest has come.
   */
  read(from: number): number {
    const bytes = this.#bytes
    const limit = Math.min(this.#end, from + MAX_HEAD_BYTES)
    const cut = this.#end - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
    const begun = this.#startLine.read(bytes, from, limit)
    if (begun < 0) return begun === INCOMPLETE ? cut : OTHER
    this.#forget()
    const { knownFields, isInLine, isOwnHost } = this.#startLine.wireShape
    if (isInLine) this.#readStartLine(from)
    let at = begun
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
        const length = nameEnd - nameAt
        const known = length < knownFields.length ? knownFields[length] : undefined
        if (known !== undefined && !this.#note(field, nameAt, known)) return OTHER
        if (at === limit) return cut
      }
      if (bytes[at] !== CR) return OTHER
      if (at + 1 === limit) return cut
      if (bytes[at + 1] !== LF) return OTHER
      const isEnd = at === nameAt
      at += 2
      if (!isEnd) continue
      this.#headAt = from
      this.#headEnd = at
      if (isOwnHost) this.#host = this.#ownHost
      return this.#ownHost === ABSENT ? OTHER : at
    }
    return cut
  }

  get door(): Door {
    return this.#startLine.wireShape.shape.door
  }

  original(): RequestView | Reason {
    if (this.#repeated !== undefined) return this.#repeated
    const { method, uri, host } = this.#startLine.wireShape.shape
    if (method?.missing !== undefined && this.#isEmpty(this.#method)) return method.missing
    if (uri?.missing !== undefined && this.#isEmpty(this.#uri)) return uri.missing
    if (host?.missing !== undefined && this.#isEmpty(this.#host)) return host.missing
    return host === undefined && !this.#readUrl() ? 'bad_original_url' : this
  }

  get method(): string {
    return this.#original(this.#method)
  }

  get uri(): string {
    return this.#original(this.#uri)
  }

  get host(): string {
    return this.#original(this.#host)
  }

  header(name: string): FieldValue {
    const fields = this.#fields
    let value: string | undefined
    for (let field = FIRST_FIELD; field < this.#used; field += FIELD_INTS) {
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

  traceparent(): FieldValue {
    return this.header('traceparent')
  }

  #forget(): void {
    this.#used = FIRST_FIELD
    this.#ownHost = ABSENT
    this.#hasLength = false
    this.#hasConnection = false
    this.#method = ABSENT
    this.#uri = ABSENT
    this.#host = ABSENT
    this.#repeated = undefined
  }

  #readStartLine(from: number): void {
    const { wireShape, methodEnd, restAt, restEnd } = this.#startLine
    if (wireShape.shape.method === undefined) this.#method = this.#place(READ_METHOD, from, methodEnd)
    if (wireShape.shape.uri === undefined) this.#uri = this.#place(READ_URI, restAt, restEnd)
  }

  /** Returns false for a URI that is no absolute URL. */
  #readUrl(): boolean {
    const urlEnd = this.#fields[this.#uri + 3]!
    const at = hostStart(this.#text, this.#fields[this.#uri + 2]!, urlEnd)
    const end = at < 0 ? -1 : hostEnd(this.#text, at, urlEnd)
    if (end < 0) return false
    this.#host = this.#place(READ_HOST, at, end)
    this.#uri = this.#place(READ_URI, end, urlEnd)
    return true
  }

  #place(field: number, at: number, end: number): number {
    this.#fields[field + 2] = at
    this.#fields[field + 3] = end
    return field
  }

  /** Returns false for a field that makes the request, or the connection, something out of the ordinary. */
  #note(field: number, nameAt: number, known: readonly KnownField[]): boolean {
    for (let i = 0; i < known.length; i++) {
      if (isSameName(this.#bytes, nameAt, known[i]!.name)) return this.#noteKnown(field, known[i]!)
    }
    return true
  }

  #noteKnown(field: number, { meaning, repeated }: KnownField): boolean {
    switch (meaning) {
      case OWN_HOST:
        if (this.#ownHost !== ABSENT) return false
        this.#ownHost = field
        return true
      case CONNECTION:
        if (this.#hasConnection) return false
        this.#hasConnection = true
        return this.#hasValue(field, KEEP_ALIVE)
      case CONTENT_LENGTH:
        if (this.#hasLength) return false
        this.#hasLength = true
        return this.#hasValue(field, ZERO)
      case NOT_PLAIN:
        return false
      case ORIGINAL_METHOD:
        if (this.#method !== ABSENT) this.#repeated ??= repeated
        this.#method = field
        return true
      case ORIGINAL_URI:
        if (this.#uri !== ABSENT) this.#repeated ??= repeated
        this.#uri = field
        return true
      case ORIGINAL_HOST:
        if (this.#host !== ABSENT) this.#repeated ??= repeated
        this.#host = field
        return true
      default:
        return true
    }
  }

  #grow(): void {
    const larger = new Int32Array(this.#fields.length * 2)
    larger.set(this.#fields)
    this.#fields = larger
  }

  #isEmpty(field: number): boolean {
    return field === ABSENT || this.#fields[field + 2] === this.#fields[field + 3]
  }

  /** `value` is in lower case. */
  #hasValue(field: number, value: string): boolean {
    const at = this.#fields[field + 2]!
    return this.#fields[field + 3]! - at === value.length && isSameText(this.#bytes, at, value)
  }

  #original(field: number): string {
    return field === ABSENT ? '' : this.#value(field)
  }

  #value(field: number): string {
    return this.#text.slice(this.#fields[field + 2]!, this.#fields[field + 3]!)
  }
}
