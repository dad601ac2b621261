import { endOfToken, endOfValue, isSameText } from './characters.ts'
import { INCOMPLETE, OTHER } from './request-line.ts'

/** Longer heads are for `node:http`, whose own bound is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

/** Each piece of a head causes it to be read again from its start. Beyond this many bytes `node:http` takes over, which continues where it stopped. */
export const MAX_REREAD_BYTES = 64 * MAX_HEAD_BYTES

/** For each field: where its name begins and ends, where its value begins and ends. */
export const FIELD_INTS = 4

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const COLON = 0x3a
const ZERO = 0x30
const USUAL_FIELDS = 32
const MAX_LENGTH_DIGITS = 15

/**
 * Reads the header lines of plain requests: each is `Name: value` or `Name:value`, the connection is kept, and the body's end is beyond
 * doubt. Anything else is OTHER; nothing is repaired. This is the one place where requests that are read without `node:http` get their framing.
 */
export class HeadFields {
  /** Four integers a field, up to `used`. They are counted from the start of the bytes that were read. */
  places = new Int32Array(USUAL_FIELDS * FIELD_INTS)
  used: number
  contentLength = 0
  isChunked = false
  #hasLength = false
  #hasConnection = false
  readonly #first: number

  /** `reserved`: so many fields in front are the caller's own. */
  constructor(reserved = 0) {
    this.#first = reserved * FIELD_INTS
    this.used = this.#first
  }

  /**
   * Reads the lines that begin at `from`; returns where the head ends, INCOMPLETE or OTHER. A piece of a head is OTHER as soon as `node:http`
   * might object to it, because Node responds at that moment, and does not wait for the rest.
   */
  read(bytes: Uint8Array, from: number, limit: number): number {
    this.forget()
    let at = from
    while (at < limit) {
      const nameAt = at
      at = endOfToken(bytes, at, limit)
      if (at === limit) return INCOMPLETE
      if (at > nameAt) {
        if (bytes[at] !== COLON) return OTHER
        const nameEnd = at++
        if (at < limit && bytes[at] === SPACE) at++
        const valueAt = at
        at = endOfValue(bytes, at, limit)
        const isCut = at === limit
        // Only the usual single space is known here, not all the white space that may surround a value (RFC 9112 5.1).
        if (at > valueAt && (bytes[valueAt] === SPACE || (!isCut && bytes[at - 1] === SPACE))) return OTHER
        if (!this.#note(bytes, nameAt, nameEnd - nameAt, valueAt, at, isCut)) return OTHER
        if (isCut) return INCOMPLETE
        this.#add(nameAt, nameEnd, valueAt, at)
      }
      if (bytes[at] !== CR) return OTHER
      if (at + 1 === limit) return INCOMPLETE
      if (bytes[at + 1] !== LF) return OTHER
      const isEnd = at === nameAt
      at += 2
      if (isEnd) return at
    }
    return INCOMPLETE
  }

  forget(): void {
    this.used = this.#first
    this.contentLength = 0
    this.isChunked = false
    this.#hasLength = false
    this.#hasConnection = false
  }

  /** Lets go of the memory that a head with many fields took. */
  shrink(): void {
    if (this.places.length > USUAL_FIELDS * FIELD_INTS) this.places = new Int32Array(USUAL_FIELDS * FIELD_INTS)
    this.forget()
  }

  /** To be called when the first `by` of the bytes that were read are dropped. The reserved places move along. */
  moveBack(by: number): void {
    for (let i = 0; i < this.used; i++) this.places[i]! -= by
  }

  #add(nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void {
    const field = this.used
    if (field === this.places.length) this.#grow()
    const { places } = this
    places[field] = nameAt
    places[field + 1] = nameEnd
    places[field + 2] = valueAt
    places[field + 3] = valueEnd
    this.used = field + FIELD_INTS
  }

  #grow(): void {
    const larger = new Int32Array(this.places.length * 2)
    larger.set(this.places)
    this.places = larger
  }

  /** Returns false for a field that makes the request, or the connection, something out of the ordinary. `isCut`: more of its value may follow. */
  #note(bytes: Uint8Array, nameAt: number, nameLength: number, valueAt: number, valueEnd: number, isCut: boolean): boolean {
    switch (nameLength) {
      case 2:
        return !isSameText(bytes, nameAt, 'te')
      case 6:
        return !isSameText(bytes, nameAt, 'expect')
      case 7:
        return !isSameText(bytes, nameAt, 'upgrade') && !isSameText(bytes, nameAt, 'trailer')
      case 10:
        return !isSameText(bytes, nameAt, 'connection') || this.#noteConnection(bytes, valueAt, valueEnd, isCut)
      case 14:
        return !isSameText(bytes, nameAt, 'content-length') || this.#noteLength(bytes, valueAt, valueEnd, isCut)
      case 16:
        return !isSameText(bytes, nameAt, 'proxy-connection')
      case 17:
        return !isSameText(bytes, nameAt, 'transfer-encoding') || this.#noteEncoding(bytes, valueAt, valueEnd, isCut)
      default:
        return true
    }
  }

  #noteConnection(bytes: Uint8Array, at: number, end: number, isCut: boolean): boolean {
    if (this.#hasConnection) return false
    this.#hasConnection = true
    return isValue(bytes, at, end, 'keep-alive', isCut)
  }

  /** A number without leading zeros. */
  #noteLength(bytes: Uint8Array, at: number, end: number, isCut: boolean): boolean {
    if (this.#hasLength || this.isChunked || end - at > MAX_LENGTH_DIGITS) return false
    this.#hasLength = true
    if (at === end) return isCut
    if (bytes[at] === ZERO && end - at > 1) return false
    let length = 0
    for (let i = at; i < end; i++) {
      const digit = bytes[i]! - ZERO
      if (digit < 0 || digit > 9) return false
      length = length * 10 + digit
    }
    this.contentLength = length
    return true
  }

  #noteEncoding(bytes: Uint8Array, at: number, end: number, isCut: boolean): boolean {
    if (this.#hasLength || this.isChunked) return false
    this.isChunked = true
    return isValue(bytes, at, end, 'chunked', isCut)
  }
}

/** `value` is in lower case. `isCut`: it may be only begun. */
function isValue(bytes: Uint8Array, at: number, end: number, value: string, isCut: boolean): boolean {
  const length = end - at
  if (isCut) return length <= value.length && isSameText(bytes, at, value.slice(0, length))
  return length === value.length && isSameText(bytes, at, value)
}
