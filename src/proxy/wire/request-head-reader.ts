import { endOfTarget, endOfToken, endOfValue, isSameText } from '../../http/characters.ts'
import { KNOWN_METHODS } from '../../http/known-methods.ts'
import type { ReceivedHead } from '../downstream.ts'

/** What reading returns instead of the end of the head: more bytes are needed, or `node:http` must read this head. */
export const INCOMPLETE = -1
export const OTHER = -2

/** Longer heads are for `node:http`, whose own bound is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const ASTERISK = 0x2a
const SLASH = 0x2f
const COLON = 0x3a
const LINE_END_LENGTH = 2
const VERSION = Uint8Array.from(' HTTP/1.1\r\n', (char) => char.charCodeAt(0))
const LONGEST_METHOD = Math.max(...[...KNOWN_METHODS].map(({ length }) => length))

/** For each field: where its name begins and ends, where its value begins and ends. */
const FIELD_INTS = 4
const USUAL_FIELDS = 32

/**
 * Reads the heads of plain requests: HTTP/1.1, a target in origin form (or `*`), a connection that is kept, and a body whose end is
 * beyond doubt. Anything else is OTHER; nothing is repaired.
 */
export class RequestHeadReader {
  #places = new Int32Array(USUAL_FIELDS * FIELD_INTS)
  /** How many integers of `#places` are in use. */
  #used = 0
  #hasConnection = false
  #hasLength = false
  /** Each field is written as `Name: value`. */
  #isSpaced = true
  /** Of the head that was read last: all its bytes, and what they say. */
  text = ''
  received: ReceivedHead = { method: '', target: '', version: '1.1', fields: [], lines: '' }
  contentLength = 0
  isChunked = false

  /**
   * Reads the head that begins at `from`; returns where it ends, INCOMPLETE or OTHER. A piece of a head is OTHER as soon as
   * `node:http` might object to it, because Node responds at that moment, and does not wait for the rest.
   */
  read(bytes: Buffer, from: number, end: number): number {
    const limit = Math.min(end, from + MAX_HEAD_BYTES)
    const cut = end - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
    const methodEnd = endOfToken(bytes, from, Math.min(limit, from + LONGEST_METHOD + 1))
    if (methodEnd === limit) return isMethodBegun(bytes.toString('latin1', from, limit)) ? cut : OTHER
    if (bytes[methodEnd] !== SPACE) return OTHER
    const targetAt = methodEnd + 1
    const targetEnd = endOfTarget(bytes, targetAt, limit)
    if (targetEnd > targetAt && bytes[targetAt] !== SLASH && (bytes[targetAt] !== ASTERISK || targetEnd > targetAt + 1)) return OTHER
    const lineEnd = endOfVersion(bytes, targetEnd, limit)
    this.#forget()
    const headEnd = lineEnd < 0 ? lineEnd : this.#readFields(bytes, lineEnd, limit)
    if (headEnd === OTHER) return OTHER
    if (headEnd === INCOMPLETE) return isMethod(bytes.toString('latin1', from, methodEnd)) ? cut : OTHER
    const text = bytes.toString('latin1', from, headEnd)
    const method = text.slice(0, methodEnd - from)
    if (!isMethod(method) || targetEnd === targetAt) return OTHER
    const target = text.slice(targetAt - from, targetEnd - from)
    const lines = this.#isSpaced ? text.slice(lineEnd - from, headEnd - from - LINE_END_LENGTH) : undefined
    this.text = text
    this.received = { method, target, version: '1.1', fields: this.#fieldsOf(text, from), lines }
    return headEnd
  }

  #readFields(bytes: Buffer, from: number, limit: number): number {
    let at = from
    while (at < limit) {
      const nameAt = at
      at = endOfToken(bytes, at, limit)
      if (at === limit) return INCOMPLETE
      if (at > nameAt) {
        if (bytes[at] !== COLON) return OTHER
        const nameEnd = at++
        if (at < limit && bytes[at] === SPACE) at++
        else this.#isSpaced = false
        const valueAt = at
        at = endOfValue(bytes, at, limit)
        // Only the usual single space is known here, not all the white space that may surround a value (RFC 9112 5.1).
        if (at > valueAt && (bytes[valueAt] === SPACE || (at < limit && bytes[at - 1] === SPACE))) return OTHER
        if (at === limit) return INCOMPLETE
        if (!this.#note(bytes, nameAt, nameEnd - nameAt, valueAt, at)) return OTHER
        const field = this.#used
        if (field === this.#places.length) this.#grow()
        const places = this.#places
        places[field] = nameAt
        places[field + 1] = nameEnd
        places[field + 2] = valueAt
        places[field + 3] = at
        this.#used = field + FIELD_INTS
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

  /** Returns false for a field that makes the request, or the connection, something out of the ordinary. */
  #note(bytes: Buffer, nameAt: number, nameLength: number, valueAt: number, valueEnd: number): boolean {
    switch (nameLength) {
      case 2:
        return !isSameText(bytes, nameAt, 'te')
      case 6:
        return !isSameText(bytes, nameAt, 'expect')
      case 7:
        return !isSameText(bytes, nameAt, 'upgrade') && !isSameText(bytes, nameAt, 'trailer')
      case 10:
        return !isSameText(bytes, nameAt, 'connection') || this.#noteConnection(bytes, valueAt, valueEnd)
      case 14:
        return !isSameText(bytes, nameAt, 'content-length') || this.#noteLength(bytes, valueAt, valueEnd)
      case 16:
        return !isSameText(bytes, nameAt, 'proxy-connection')
      case 17:
        return !isSameText(bytes, nameAt, 'transfer-encoding') || this.#noteEncoding(bytes, valueAt, valueEnd)
      default:
        return true
    }
  }

  #noteConnection(bytes: Buffer, at: number, end: number): boolean {
    if (this.#hasConnection) return false
    this.#hasConnection = true
    return isValue(bytes, at, end, 'keep-alive')
  }

  #noteLength(bytes: Buffer, at: number, end: number): boolean {
    if (this.#hasLength || this.isChunked || at === end || end - at > 15) return false
    this.#hasLength = true
    let length = 0
    for (let i = at; i < end; i++) {
      const digit = bytes[i]! - 0x30
      if (digit < 0 || digit > 9) return false
      length = length * 10 + digit
    }
    this.contentLength = length
    return true
  }

  #noteEncoding(bytes: Buffer, at: number, end: number): boolean {
    if (this.#hasLength || this.isChunked) return false
    this.isChunked = true
    return isValue(bytes, at, end, 'chunked')
  }

  #fieldsOf(text: string, from: number): string[] {
    const places = this.#places
    const fields: string[] = []
    for (let i = 0; i < this.#used; i += FIELD_INTS) {
      fields.push(text.slice(places[i]! - from, places[i + 1]! - from), text.slice(places[i + 2]! - from, places[i + 3]! - from))
    }
    return fields
  }

  #forget(): void {
    this.#used = 0
    this.#hasConnection = false
    this.#hasLength = false
    this.#isSpaced = true
    this.contentLength = 0
    this.isChunked = false
  }

  #grow(): void {
    const larger = new Int32Array(this.#places.length * 2)
    larger.set(this.#places)
    this.#places = larger
  }
}

/** `value` is in lower case. */
function isValue(bytes: Buffer, at: number, end: number, value: string): boolean {
  return end - at === value.length && isSameText(bytes, at, value)
}

function endOfVersion(bytes: Buffer, at: number, limit: number): number {
  const length = Math.min(VERSION.length, limit - at)
  for (let i = 0; i < length; i++) if (bytes[at + i] !== VERSION[i]) return OTHER
  return length === VERSION.length ? at + length : INCOMPLETE
}

/** The target of CONNECT is no path. */
function isMethod(text: string): boolean {
  return KNOWN_METHODS.has(text) && text !== 'CONNECT'
}

/** `node:http` objects to a method as soon as it cannot be one that it knows. */
function isMethodBegun(start: string): boolean {
  for (const method of KNOWN_METHODS) if (method.startsWith(start)) return true
  return false
}
