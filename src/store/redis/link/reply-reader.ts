/** An error that Redis replied with. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError'
}

/** The bytes are not replies of Redis, so that nothing more can be read from the connection. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
}

const [CR, LF, DIGIT_0, DIGIT_9, MINUS] = [0x0d, 0x0a, 0x30, 0x39, 0x2d]
const [SIMPLE, ERROR, INTEGER, BULK, ARRAY] = [0x2b, 0x2d, 0x3a, 0x24, 0x2a]

/** A line is a number, a status or an error: Redis writes none that is longer. */
const MAX_LINE_BYTES = 16 * 1024
/** The largest string that Redis can hold. */
const MAX_BULK_BYTES = 512 * 1024 * 1024
/** Packed numbers are those of a call's rows, and a call has far fewer. */
const MAX_PACKED_BYTES = 1024 * 1024
const MAX_DEPTH = 16
const NOT_REDIS = 'it does not speak the protocol of Redis'

interface OpenArray {
  readonly items: unknown[]
  readonly length: number
}

/**
 * Reads the replies of RESP 2 from the chunks in which they arrive. Strings are returned as strings, or as the numbers that are packed in them if
 * `expectsNumbers` says so of the next reply and they can be numbers; integers as numbers, null as null, arrays as arrays, and errors as
 * ReplyErrors. A chunk that ends within a reply is kept, and no byte of a string is looked at twice.
 */
export class ReplyReader {
  readonly #onReply: (reply: unknown) => void
  readonly #expectsNumbers: () => boolean
  readonly #arrays: OpenArray[] = []
  /** The beginning of a value that has not arrived in full, and how many bytes must be there before it is looked at again. */
  #kept: Buffer[] = []
  #keptBytes = 0
  #neededBytes = 0
  #bytes: Buffer = EMPTY
  #at = 0

  constructor(onReply: (reply: unknown) => void, expectsNumbers: () => boolean = () => false) {
    this.#onReply = onReply
    this.#expectsNumbers = expectsNumbers
  }

  /** Throws a ProtocolError if the bytes are not RESP 2. Nothing more may be read after that. */
  read(chunk: Buffer): void {
    if (this.#keptBytes === 0) this.#bytes = chunk
    else {
      this.#kept.push(chunk)
      this.#keptBytes += chunk.length
      if (this.#keptBytes < this.#neededBytes) return
      this.#bytes = Buffer.concat(this.#kept, this.#keptBytes)
      this.#kept = []
      this.#keptBytes = 0
    }
    this.#at = 0
    while (this.#at < this.#bytes.length && this.#readValue());
    this.#bytes = EMPTY
  }

  /** Returns false if the value has not arrived in full. */
  #readValue(): boolean {
    const start = this.#at
    const end = this.#lineEnd(start)
    if (end < 0) return this.#keep(start, this.#bytes.length - start + 1)
    this.#at = end + 2
    switch (this.#bytes[start]) {
      case BULK:
        return this.#readBulk(start, this.#numberAt(start + 1, end))
      case SIMPLE:
        this.#add(this.#bytes.toString('utf8', start + 1, end))
        return true
      case ERROR:
        this.#add(new ReplyError(this.#bytes.toString('utf8', start + 1, end)))
        return true
      case INTEGER:
        this.#add(this.#numberAt(start + 1, end))
        return true
      case ARRAY:
        this.#readArray(this.#numberAt(start + 1, end))
        return true
      default:
        throw new ProtocolError(NOT_REDIS)
    }
  }

  #readBulk(start: number, length: number): boolean {
    const from = this.#at
    if (length < 0) {
      this.#add(null)
      return true
    }
    if (length > MAX_BULK_BYTES) throw new ProtocolError('a reply is too long')
    const end = from + length
    if (end + 2 > this.#bytes.length) return this.#keep(start, end + 2 - start)
    if (this.#bytes[end] !== CR || this.#bytes[end + 1] !== LF) throw new ProtocolError(NOT_REDIS)
    this.#at = end + 2
    const isPacked = this.#arrays.length === 0 && isPackable(length) && this.#expectsNumbers()
    this.#add(isPacked ? unpackedNumbers(this.#bytes, from, end) : this.#bytes.toString('utf8', from, end))
    return true
  }

  #readArray(length: number): void {
    if (length <= 0) this.#add(length === 0 ? [] : null)
    else if (this.#arrays.push({ items: [], length }) > MAX_DEPTH) throw new ProtocolError('a reply is nested too deeply')
  }

  #add(value: unknown): void {
    let whole = value
    for (;;) {
      const open = this.#arrays.at(-1)
      if (open === undefined) return this.#onReply(whole)
      if (open.items.push(whole) < open.length) return
      this.#arrays.pop()
      whole = open.items
    }
  }

  /** Keeps what has arrived of a value. It is not looked at again before it has `neededBytes`. */
  #keep(start: number, neededBytes: number): false {
    this.#kept = [this.#bytes.subarray(start)]
    this.#keptBytes = this.#bytes.length - start
    this.#neededBytes = neededBytes
    return false
  }

  /** Returns where the line's CR is, or -1 if the line has not arrived in full. */
  #lineEnd(start: number): number {
    const bytes = this.#bytes
    const last = Math.min(bytes.length, start + MAX_LINE_BYTES) - 1
    for (let at = start; at < last; at++) if (bytes[at] === CR && bytes[at + 1] === LF) return at
    if (bytes.length - start >= MAX_LINE_BYTES) throw new ProtocolError('a line of a reply is too long')
    return -1
  }

  #numberAt(start: number, end: number): number {
    const isNegative = this.#bytes[start] === MINUS
    const first = isNegative ? start + 1 : start
    let number = 0
    for (let at = first; at < end; at++) {
      const digit = this.#bytes[at]!
      if (digit < DIGIT_0 || digit > DIGIT_9) throw new ProtocolError(NOT_REDIS)
      number = number * 10 + (digit - DIGIT_0)
    }
    if (first === end) throw new ProtocolError(NOT_REDIS)
    return isNegative ? -number : number
  }
}

const EMPTY = Buffer.alloc(0)

function isPackable(length: number): boolean {
  return length <= MAX_PACKED_BYTES && length % Float64Array.BYTES_PER_ELEMENT === 0
}

function unpackedNumbers(bytes: Buffer, from: number, end: number): number[] {
  const numbers: number[] = []
  for (let at = from; at < end; at += Float64Array.BYTES_PER_ELEMENT) numbers.push(bytes.readDoubleLE(at))
  return numbers
}
