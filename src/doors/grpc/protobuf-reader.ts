/** Thrown for bytes that are not a Protocol Buffers message. */
export class MalformedMessage extends Error {}

export const VARINT = 0
const FIXED_64 = 1
export const LENGTH = 2
const FIXED_32 = 5

const NO_BYTES = Buffer.alloc(0)
const LOW_BITS = 0x7f
const MORE = 0x80
const TWO_TO_28 = 2 ** 28
const MAX_VARINT_BYTES = 10

/**
 * Reads the fields of a Protocol Buffers message in order; a nested message is a range of the same bytes. After each `next`, the caller must
 * read or skip the field. All methods may throw MalformedMessage.
 */
export class ProtobufReader {
  #bytes: Buffer = NO_BYTES
  #at = 0
  #end = 0
  readonly #known = new KnownTexts()
  /** Wire type of the field that `next` found. */
  wireType = VARINT
  /** End of the value that `value` found. */
  valueEnd = 0

  /** The bytes of the message given to `begin`, not copied. */
  get bytes(): Buffer {
    return this.#bytes
  }

  begin(message: Uint8Array): void {
    this.#bytes = Buffer.isBuffer(message) ? message : Buffer.from(message.buffer, message.byteOffset, message.byteLength)
    this.#at = 0
    this.#end = message.byteLength
  }

  /** Releases the message's bytes. */
  clear(): void {
    this.#bytes = NO_BYTES
    this.#at = 0
    this.#end = 0
  }

  /** Returns the number of the next field, or 0 at the end of the message. */
  next(): number {
    if (this.#at === this.#end) return 0
    const tag = this.varint()
    this.wireType = tag & 7
    const field = Math.floor(tag / 8)
    if (field === 0 || tag > 0xffff_ffff) throw new MalformedMessage('a field has no number')
    return field
  }

  /** Reads a varint as a double, so numbers above 2^53 are rounded. */
  varint(): number {
    const bytes = this.#bytes
    let low = 0
    let high = 0
    for (let i = 0; i < MAX_VARINT_BYTES; i++) {
      if (this.#at === this.#end) throw new MalformedMessage('a number is cut short')
      const byte = bytes[this.#at++]!
      if (i < 4) low |= (byte & LOW_BITS) << (7 * i)
      else high += (byte & LOW_BITS) * 2 ** (7 * (i - 4))
      if (byte < MORE) return low + high * TWO_TO_28
    }
    throw new MalformedMessage('a number has more than 64 bits')
  }

  /** Reads a field that is a varint. */
  number(): number {
    if (this.wireType !== VARINT) throw new MalformedMessage('a field has the wrong wire type')
    return this.varint()
  }

  /** Enters a nested message. Returns where the outer one ends, for `leave`. */
  enter(): number {
    const end = this.#endOfValue()
    const outer = this.#end
    this.#end = end
    return outer
  }

  /** Returns to the outer message, after the nested one. */
  leave(outerEnd: number): void {
    this.#at = this.#end
    this.#end = outerEnd
  }

  /** Returns where this field's bytes begin; `valueEnd` is where they end. */
  value(): number {
    const end = this.#endOfValue()
    const at = this.#at
    this.#at = end
    this.valueEnd = end
    return at
  }

  /** Reads a UTF-8 string. */
  text(): string {
    return this.#string('utf8')
  }

  /** Reads a UTF-8 string that is likely to come again. */
  knownText(): string {
    const at = this.value()
    return this.#known.read(this.#bytes, at, this.valueEnd)
  }

  /** Reads a latin1 string, as header fields are read elsewhere. */
  byteText(): string {
    return this.#string('latin1')
  }

  skip(): void {
    switch (this.wireType) {
      case VARINT:
        this.varint()
        return
      case FIXED_64:
        return this.#skipBytes(8)
      case LENGTH:
        this.#at = this.#endOfValue()
        return
      case FIXED_32:
        return this.#skipBytes(4)
      default:
        throw new MalformedMessage('a field has an unknown wire type')
    }
  }

  #string(encoding: 'utf8' | 'latin1'): string {
    const end = this.#endOfValue()
    const text = this.#bytes.toString(encoding, this.#at, end)
    this.#at = end
    return text
  }

  #endOfValue(): number {
    if (this.wireType !== LENGTH) throw new MalformedMessage('a field has the wrong wire type')
    const length = this.varint()
    if (length > this.#end - this.#at) throw new MalformedMessage('a field is cut short')
    return this.#at + length
  }

  #skipBytes(count: number): void {
    if (count > this.#end - this.#at) throw new MalformedMessage('a field is cut short')
    this.#at += count
  }
}

/** Number of cached texts, and their maximum length in bytes. For longer texts, the cost of decoding matters little. */
const SLOTS = 64
const MAX_BYTES = 64

/** A cache of texts that callers send repeatedly, such as domains and descriptor keys. A cached text needs neither decoding nor memory. */
export class KnownTexts {
  readonly #texts: string[] = new Array(SLOTS).fill('')

  /** Decodes these bytes as UTF-8. */
  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from
    if (length === 0 || length > MAX_BYTES) return bytes.toString('utf8', from, to)
    const slot = (bytes[from]! + bytes[to - 1]! + length) % SLOTS
    const known = this.#texts[slot]!
    if (known.length === length && isWritten(known, bytes, from)) return known
    const text = bytes.toString('utf8', from, to)
    // ASCII has as many characters as bytes. So may malformed UTF-8, but it contains U+FFFD, which equals no byte, so it is never found again.
    if (text.length === length) this.#texts[slot] = text
    return text
  }
}

/** Whether each character has the value of the byte at its position. */
function isWritten(text: string, bytes: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[from + i]) return false
  return true
}
