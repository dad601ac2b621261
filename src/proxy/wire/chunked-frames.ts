import { HEX_VALUES, isTokenByte } from '../../http1/characters.ts'
import { hasMember } from '../../http1/header-fields.ts'

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const TAB = 0x09
const QUOTE = 0x22
const COLON = 0x3a
const SEMICOLON = 0x3b
const EQUALS = 0x3d
const BACKSLASH = 0x5c
const DELETE = 0x7f

/** Limits of `node:http` for the extensions of one chunk, and for the trailers. */
const MAX_EXTENSION_BYTES = 16 * 1024
const MAX_TRAILER_BYTES = 64 * 1024
/** Limit for the hexadecimal digits after leading zeros: 64 bits. */
const MAX_SIZE_DIGITS = 16
const LONGEST_KNOWN_NAME = 'transfer-encoding'.length

const SIZE_START = 0
const SIZE = 1
const EXTENSION_START = 2
const EXTENSION_NAME = 3
const EXTENSION_VALUE = 4
const QUOTED = 5
const QUOTED_PAIR = 6
const QUOTED_END = 7
const SIZE_LF = 8
const DATA = 9
const DATA_CR = 10
const DATA_LF = 11
const TRAILER_START = 12
const TRAILER_NAME = 13
const TRAILER_SPACE = 14
const TRAILER_VALUE = 15
const TRAILER_LF = 16
const LAST_LF = 17
const DONE = 18

/** The chunks are malformed, so it is unknown where their body ends. */
export class MalformedChunks extends Error {
  readonly code: string

  constructor(message: string, code = 'EDGE_MALFORMED_CHUNKS') {
    super(message)
    this.code = code
  }
}

/**
 * Reads the frames of a chunked body (RFC 9112 7.1) by the grammar of Node's parser: extensions and trailers are read and dropped, and whatever
 * that parser refuses is refused here too. Each byte is read once, wherever the pieces end.
 */
export class ChunkedFrames {
  #state = DONE
  /** The size of the chunk, then the number of its data bytes that are still to come. */
  #size = 0
  /** Number of digits of the size, or of bytes of the extensions or the trailers, so far. */
  #otherBytes = 0
  /** Start of the current trailer's name, and the value of a trailer that is about the connection. */
  #name = ''
  #connection: string | undefined
  /** A trailer says `Connection: close`, so nothing may follow this body. */
  isLast = false

  begin(): void {
    this.#state = SIZE_START
    this.#connection = undefined
    this.isLast = false
  }

  /** Continues from the state of the other reader, which stays unchanged. */
  follow(other: ChunkedFrames): void {
    this.#state = other.#state
    this.#size = other.#size
    this.#otherBytes = other.#otherBytes
    this.#name = other.#name
    this.#connection = other.#connection
    this.isLast = other.isLast
  }

  get isDone(): boolean {
    return this.#state === DONE
  }

  /** Whether data comes next. */
  get isInData(): boolean {
    return this.#state === DATA
  }

  /** To be called while `isInData`. Returns where the chunk's data or these bytes end. */
  skipData(from: number, end: number): number {
    const taken = Math.min(this.#size, end - from)
    this.#size -= taken
    if (this.#size === 0) this.#state = DATA_CR
    return from + taken
  }

  /** To be called while not `isInData`. Returns where data begins, or where the body or these bytes end. Throws MalformedChunks. */
  skipFrame(bytes: Uint8Array, from: number, end: number): number {
    let at = from
    while (at < end && this.#state !== DATA && this.#state !== DONE) this.#step(bytes[at++]!)
    return at
  }

  #step(byte: number): void {
    switch (this.#state) {
      case SIZE_START:
        if (HEX_VALUES[byte]! < 0) throw new MalformedChunks('Invalid character in chunk size')
        this.#size = 0
        this.#otherBytes = 0
        this.#state = SIZE
        this.#addDigit(HEX_VALUES[byte]!)
        break
      case SIZE:
        if (HEX_VALUES[byte]! >= 0) this.#addDigit(HEX_VALUES[byte]!)
        else this.#endSize(byte)
        break
      case SIZE_LF:
        if (byte !== LF) throw new MalformedChunks('Expected LF after chunk size')
        this.#state = this.#size === 0 ? TRAILER_START : DATA
        this.#name = ''
        this.#otherBytes = 0
        break
      case DATA_CR:
        if (byte !== CR) throw new MalformedChunks(byte === LF ? 'Missing expected CR after chunk data' : 'Expected LF after chunk data')
        this.#state = DATA_LF
        break
      case DATA_LF:
        if (byte !== LF) throw new MalformedChunks('Expected LF after chunk data')
        this.#state = SIZE_START
        break
      case LAST_LF:
        if (byte !== LF) throw new MalformedChunks('Expected LF after headers')
        this.#state = DONE
        break
      default:
        if (this.#state < SIZE_LF) this.#stepInExtension(byte)
        else this.#stepInTrailer(byte)
    }
  }

  #addDigit(digit: number): void {
    this.#size = this.#size * 16 + digit
    if (this.#size > 0 && ++this.#otherBytes > MAX_SIZE_DIGITS) throw new MalformedChunks('Chunk size overflow')
  }

  #endSize(byte: number): void {
    this.#otherBytes = 0
    if (byte === CR) this.#state = SIZE_LF
    else if (byte === SEMICOLON) this.#state = EXTENSION_START
    else throw new MalformedChunks(byte === LF ? 'Missing expected CR after chunk size' : 'Invalid character in chunk size')
  }

  #stepInExtension(byte: number): void {
    if (++this.#otherBytes > MAX_EXTENSION_BYTES) {
      throw new MalformedChunks('Chunk extensions overflow', 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    }
    switch (this.#state) {
      case EXTENSION_START:
        if (byte === SPACE || byte === CR) throw new MalformedChunks('Invalid character in chunk extensions')
        this.#state = EXTENSION_NAME
        this.#stepInWord(byte)
        break
      case EXTENSION_NAME:
      case EXTENSION_VALUE:
        this.#stepInWord(byte)
        break
      case QUOTED:
        if (byte === QUOTE) this.#state = QUOTED_END
        else if (byte === BACKSLASH) this.#state = QUOTED_PAIR
        else if (!isText(byte)) throw new MalformedChunks('Invalid character in chunk extensions quoted value')
        break
      case QUOTED_PAIR:
        if (!isText(byte)) throw new MalformedChunks('Invalid quoted-pair in chunk extensions quoted value')
        this.#state = QUOTED
        break
      default:
        if (byte === CR) this.#state = SIZE_LF
        else if (byte === SEMICOLON) this.#state = EXTENSION_START
        else
          throw new MalformedChunks(
            byte === LF ? 'Missing expected CR after chunk extension value' : 'Invalid character in chunk extensions quote value',
          )
    }
  }

  #stepInWord(byte: number): void {
    if (isTokenByte(byte)) return
    if (byte === CR) this.#state = SIZE_LF
    else if (byte === SEMICOLON) this.#state = EXTENSION_START
    else if (byte === EQUALS && this.#state === EXTENSION_NAME) this.#state = EXTENSION_VALUE
    else if (byte === QUOTE && this.#state === EXTENSION_VALUE) this.#state = QUOTED
    else {
      const part = this.#state === EXTENSION_NAME ? 'name' : 'value'
      throw new MalformedChunks(
        byte === LF ? `Missing expected CR after chunk extension ${part}` : `Invalid character in chunk extensions ${part}`,
      )
    }
  }

  #stepInTrailer(byte: number): void {
    if (++this.#otherBytes > MAX_TRAILER_BYTES) throw new MalformedChunks('Header overflow', 'HPE_HEADER_OVERFLOW')
    switch (this.#state) {
      case TRAILER_START:
        if (this.#name !== '' && (byte === SPACE || byte === TAB)) throw new MalformedChunks('Unexpected whitespace after header value')
        this.#name = ''
        if (byte === CR) this.#state = LAST_LF
        else this.#stepInName(byte)
        break
      case TRAILER_NAME:
        this.#stepInName(byte)
        break
      case TRAILER_SPACE:
        if (byte === SPACE || byte === TAB) break
        this.#state = TRAILER_VALUE
        this.#stepInValue(byte)
        break
      case TRAILER_VALUE:
        this.#stepInValue(byte)
        break
      default:
        if (byte !== LF) throw new MalformedChunks('Missing expected LF after header value')
        this.#state = TRAILER_START
    }
  }

  #stepInName(byte: number): void {
    if (isTokenByte(byte)) {
      if (this.#name.length <= LONGEST_KNOWN_NAME) this.#name += String.fromCharCode(byte)
      this.#state = TRAILER_NAME
    } else if (byte === COLON && this.#state === TRAILER_NAME) this.#endName()
    else throw new MalformedChunks(byte === LF ? 'Invalid header field char' : 'Invalid header token')
  }

  /** Refuses fields that would change the framing. */
  #endName(): void {
    const name = this.#name.toLowerCase()
    if (name === 'content-length') throw new MalformedChunks("Content-Length can't be present with Transfer-Encoding")
    if (name === 'connection' || name === 'proxy-connection') this.#connection = ''
    if (name === 'transfer-encoding') throw new MalformedChunks('Invalid `Transfer-Encoding` header value')
    this.#state = TRAILER_SPACE
  }

  #stepInValue(byte: number): void {
    if (byte === CR) this.#endValue()
    else if (this.#connection !== undefined && isText(byte)) this.#connection += String.fromCharCode(byte)
    else if (!isText(byte)) throw new MalformedChunks(byte === LF ? 'Missing expected CR after header value' : 'Invalid header value char')
  }

  #endValue(): void {
    this.#state = TRAILER_LF
    if (this.#connection !== undefined && hasMember(this.#connection, 'close')) this.isLast = true
    this.#connection = undefined
  }
}

/** RFC 9110 5.5: whether a field value may contain this byte, white space included. */
function isText(byte: number): boolean {
  return byte === TAB || (byte >= SPACE && byte !== DELETE)
}
