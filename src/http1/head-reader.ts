import { endOfToken, endOfValue, isSameText } from './characters.ts'
import { INCOMPLETE, OTHER } from './request-line.ts'

/** Longer heads are left to `node:http`, whose own limit is higher. */
export const MAX_HEAD_BYTES = 16 * 1024

/** Each piece of a head makes us read it again from its start. Beyond this many bytes in all, `node:http` takes over, which continues where it stopped. */
export const MAX_REREAD_BYTES = 64 * MAX_HEAD_BYTES

/** Returns INCOMPLETE for a head of which the bytes from `from` to `end` are only the beginning, or OTHER if it is too long. */
export function unendedHead(from: number, end: number): typeof INCOMPLETE | typeof OTHER {
  return end - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
}

/** Integers for each field: start and end of its name, start and end of its value. */
export const FIELD_INTS = 4

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const COLON = 0x3a
const ZERO = 0x30
const USUAL_FIELDS = 32
const MAX_LENGTH_DIGITS = 15

interface FramingField {
  /** Name in lower case. */
  readonly name: string
  /** Meaning of its value in a plain request; undefined if a plain request may not have the field. */
  readonly meaning: 'connection' | 'length' | 'encoding' | undefined
}

/** Fields that affect the connection or the framing of the body. */
const FRAMING_FIELDS: readonly FramingField[] = [
  { name: 'connection', meaning: 'connection' },
  { name: 'content-length', meaning: 'length' },
  { name: 'transfer-encoding', meaning: 'encoding' },
  ...['te', 'expect', 'upgrade', 'trailer', 'proxy-connection'].map((name) => ({ name, meaning: undefined })),
]
const LONGEST_NAME = Math.max(...FRAMING_FIELDS.map(({ name }) => name.length))
/** Framing fields by length and first letter, in which no two of them agree. Nearly all other fields differ from them in that already. */
const BY_BEGINNING = Array.from({ length: tableIndex(LONGEST_NAME + 1, 0) }, (_, index) =>
  FRAMING_FIELDS.find(({ name }) => tableIndex(name.length, name.charCodeAt(0)) === index),
)

/**
 * Reads the header lines of plain requests: each line is `Name: value` or `Name:value`, the connection is kept alive, and the body's end is
 * unambiguous. Anything else is OTHER; nothing is repaired. All requests that are read without `node:http` get their framing here.
 */
export class HeadReader {
  /** Four integers for each field, up to `used`: offsets from the start of the bytes that were read. */
  offsets = new Int32Array(USUAL_FIELDS * FIELD_INTS)
  used: number
  contentLength = 0
  isChunked = false
  /** Whether each field is written as `Name: value`, with exactly one space. */
  isSpaced = true
  #hasLength = false
  #hasConnection = false
  readonly #first: number

  /** `reserved` is the number of entries in front that belong to the caller. */
  constructor(reserved = 0) {
    this.#first = reserved * FIELD_INTS
    this.used = this.#first
  }

  /**
   * Reads the lines that begin at `from`. Returns where the head ends, INCOMPLETE or OTHER. A partial head is OTHER as soon as `node:http`
   * might object to it, because Node responds at that moment, without waiting for the rest.
   */
  read(bytes: Uint8Array, from: number, limit: number): number {
    this.forget()
    let { offsets, used } = this
    let at = from
    while (at < limit) {
      const nameAt = at
      at = endOfToken(bytes, at, limit)
      if (at === limit) return INCOMPLETE
      if (at > nameAt) {
        if (bytes[at] !== COLON) return OTHER
        const nameEnd = at++
        if (at < limit && bytes[at] === SPACE) at++
        else this.isSpaced = false
        const valueAt = at
        at = endOfValue(bytes, at, limit)
        // Only the usual single space is accepted here, not all the white space that may surround a value (RFC 9112 5.1).
        if (at > valueAt && (bytes[valueAt] === SPACE || (at < limit && bytes[at - 1] === SPACE))) return OTHER
        const length = nameEnd - nameAt
        const framing = length <= LONGEST_NAME ? BY_BEGINNING[tableIndex(length, bytes[nameAt]!)] : undefined
        if (framing !== undefined && isSameText(bytes, nameAt, framing.name) && !this.#note(framing, bytes, valueAt, at, at === limit))
          return OTHER
        if (at === limit) return INCOMPLETE
        if (used === offsets.length) offsets = this.#grow()
        offsets[used] = nameAt
        offsets[used + 1] = nameEnd
        offsets[used + 2] = valueAt
        offsets[used + 3] = at
        used += FIELD_INTS
        this.used = used
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
    this.isSpaced = true
    this.#hasLength = false
    this.#hasConnection = false
  }

  /** Releases the memory that a head with many fields took. */
  shrink(): void {
    if (this.offsets.length > USUAL_FIELDS * FIELD_INTS) this.offsets = new Int32Array(USUAL_FIELDS * FIELD_INTS)
    this.forget()
  }

  /** Must be called when the first `by` bytes are dropped. The offsets in reserved entries change as well. */
  moveBack(by: number): void {
    for (let i = 0; i < this.used; i++) this.offsets[i]! -= by
  }

  #grow(): Int32Array<ArrayBuffer> {
    const larger = new Int32Array(this.offsets.length * 2)
    larger.set(this.offsets)
    this.offsets = larger
    return larger
  }

  /** Returns false if the field makes the request or the connection unusual. `isCut` says that more of the value may follow. */
  #note({ meaning }: FramingField, bytes: Uint8Array, at: number, end: number, isCut: boolean): boolean {
    if (meaning === 'connection') return this.#noteConnection(bytes, at, end, isCut)
    if (meaning === 'length') return this.#noteLength(bytes, at, end, isCut)
    return meaning === 'encoding' && this.#noteEncoding(bytes, at, end, isCut)
  }

  #noteConnection(bytes: Uint8Array, at: number, end: number, isCut: boolean): boolean {
    if (this.#hasConnection) return false
    this.#hasConnection = true
    return isValue(bytes, at, end, 'keep-alive', isCut)
  }

  /** Accepts only a number without leading zeros. */
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

/** `value` is in lower case. With `isCut`, the bytes may be only its beginning. */
function isValue(bytes: Uint8Array, at: number, end: number, value: string, isCut: boolean): boolean {
  const length = end - at
  if (isCut) return length <= value.length && isSameText(bytes, at, value.slice(0, length))
  return length === value.length && isSameText(bytes, at, value)
}

/** The lowest five bits of a letter are the same in upper and lower case. */
function tableIndex(length: number, firstByte: number): number {
  return length * 32 + (firstByte & 31)
}
