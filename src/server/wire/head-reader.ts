import type { Reason } from '../../engine/reasons.ts'
import type { RequestView } from '../../request/view.ts'
import type { Question } from '../decision-endpoint.ts'
import { LOWER, TOKEN, VALUE } from './characters.ts'

/** What `read` answers in place of where the head ends. */
export const INCOMPLETE = -1
/** Not for this wire: `node:http` shall look at it. */
export const OTHER = -2

/** Longer heads are for `node:http`, whose own bound is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

const START_LINE = 'POST /v1/decision HTTP/1.1\r\n'
const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const COLON = 0x3a

/** For each field: where its name begins and ends, where its value begins and ends. */
const FIELD_INTS = 4
const USUAL_FIELDS = 32
const ABSENT = -1
const NO_BYTES = new Uint8Array()

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
    this.#forget()
  }

  /**
   * Reads the head that begins at `from`; answers where it ends, INCOMPLETE or OTHER. A piece of a head is OTHER as soon as
   * `node:http` might object to it, for that answers then and not when the rest has come.
   */
  read(from: number): number {
    const bytes = this.#bytes
    if (!this.#text.startsWith(START_LINE, from)) {
      return START_LINE.startsWith(this.#text.slice(from, from + START_LINE.length)) ? INCOMPLETE : OTHER
    }
    this.#forget()
    const limit = Math.min(bytes.length, from + MAX_HEAD_BYTES)
    const cut = bytes.length - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
    let at = from + START_LINE.length
    while (at < limit) {
      const nameAt = at
      while (at < limit && TOKEN[bytes[at]!] === 1) at++
      if (at === limit) return cut
      if (at > nameAt) {
        if (bytes[at] !== COLON) return OTHER
        const nameEnd = at++
        if (at < limit && bytes[at] === SPACE) at++
        const valueAt = at
        while (at < limit && VALUE[bytes[at]!] === 1) at++
        // Only the usual single space is known here, not all the white space that may surround a value (RFC 9112 5.1).
        if (at > valueAt && (bytes[valueAt] === SPACE || (at < limit && bytes[at - 1] === SPACE))) return OTHER
        if (!this.#note(nameAt, nameEnd, valueAt, at)) return OTHER
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

  header(name: string): string | undefined {
    return this.#joined(name, ', ')
  }

  cookie(): string | undefined {
    return this.#joined('cookie', '; ')
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

  /** Writes a field down. Answers false for one that would make the request, or the connection, something out of the ordinary. */
  #note(nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): boolean {
    const field = this.#used
    if (field === this.#fields.length) this.#grow()
    this.#fields[field] = nameAt
    this.#fields[field + 1] = nameEnd
    this.#fields[field + 2] = valueAt
    this.#fields[field + 3] = valueEnd
    this.#used = field + FIELD_INTS
    switch (nameEnd - nameAt) {
      case 2:
        return !this.#isNamed(field, 'te')
      case 4:
        return !this.#isNamed(field, 'host') || this.#noteOwnHost()
      case 6:
        return !this.#isNamed(field, 'expect')
      case 7:
        return !this.#isNamed(field, 'upgrade') && !this.#isNamed(field, 'trailer')
      case 10:
        return !this.#isNamed(field, 'connection') || this.#noteConnection(field)
      case 14:
        if (this.#isNamed(field, 'x-original-uri')) this.#noteUri(field)
        return !this.#isNamed(field, 'content-length') || this.#noteLength(field)
      case 15:
        if (this.#isNamed(field, 'x-original-host')) this.#noteHost(field)
        return true
      case 16:
        return !this.#isNamed(field, 'proxy-connection')
      case 17:
        if (this.#isNamed(field, 'x-original-method')) this.#noteMethod(field)
        return !this.#isNamed(field, 'transfer-encoding')
      default:
        return true
    }
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

  #noteMethod(field: number): void {
    if (this.#method !== ABSENT) this.#repeated ??= 'repeated_original_method'
    this.#method = field
  }

  #noteUri(field: number): void {
    if (this.#uri !== ABSENT) this.#repeated ??= 'repeated_original_uri'
    this.#uri = field
  }

  #noteHost(field: number): void {
    if (this.#host !== ABSENT) this.#repeated ??= 'repeated_original_host'
    this.#host = field
  }

  #grow(): void {
    const larger = new Int32Array(this.#fields.length * 2)
    larger.set(this.#fields)
    this.#fields = larger
  }

  #joined(name: string, separator: string): string | undefined {
    let value: string | undefined
    for (let field = 0; field < this.#used; field += FIELD_INTS) {
      if (this.#fields[field + 1]! - this.#fields[field]! !== name.length || !this.#isNamed(field, name)) continue
      value = value === undefined ? this.#value(field) : `${value}${separator}${this.#value(field)}`
    }
    return value
  }

  /** Whether a field of that length has this name, which is in lower case. */
  #isNamed(field: number, name: string): boolean {
    const nameAt = this.#fields[field]!
    for (let i = 0; i < name.length; i++) if (LOWER[this.#bytes[nameAt + i]!] !== name.charCodeAt(i)) return false
    return true
  }

  #isEmpty(field: number): boolean {
    return field === ABSENT || this.#fields[field + 2] === this.#fields[field + 3]
  }

  #value(field: number): string {
    return this.#text.slice(this.#fields[field + 2]!, this.#fields[field + 3]!)
  }
}
