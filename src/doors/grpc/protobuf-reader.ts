/** The bytes are not a message. */
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
 * Reads the fields of a Protocol Buffers message, one after the other; a message inside is a range of the same bytes. Every field is
 * read or skipped. Throws MalformedMessage.
 */
export class ProtobufReader {
  #bytes: Buffer = NO_BYTES
  #at = 0
  #end = 0
  readonly #known = new KnownTexts()
  /** Of the field that `next` found. */
  wireType = VARINT
  /** Where the value that `value` found ends. */
  valueEnd = 0

  /** Of the message that `begin` was called with: not a copy. */
  get bytes(): Buffer {
    return this.#bytes
  }

  begin(message: Uint8Array): void {
    this.#bytes = Buffer.isBuffer(message) ? message : Buffer.from(message.buffer, message.byteOffset, message.byteLength)
    this.#at = 0
    this.#end = message.byteLength
  }

  /** Lets go of the bytes. */
  clear(): void {
    this.#bytes = NO_BYTES
    this.#at = 0
    this.#end = 0
  }

  /** The number of the next field, 0 at the end of the message. */
  next(): number {
    if (this.#at === this.#end) return 0
    const tag = this.varint()
    this.wireType = tag & 7
    const field = Math.floor(tag / 8)
    if (field === 0 || tag > 0xffff_ffff) throw new MalformedMessage('a field has no number')
    return field
  }

  /** As far as doubles go; larger ones are rounded. */
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

  /** A field that is a number. */
  number(): number {
    if (this.wireType !== VARINT) throw new MalformedMessage('a field has the wrong wire type')
    return this.varint()
  }

  /** Enters the message that this field is; returns where the outer one ends, for `leave`. */
  enter(): number {
    const end = this.#endOfValue()
    const outer = this.#end
    this.#end = end
    return outer
  }

  /** Back to the outer message, behind this one. */
  leave(outerEnd: number): void {
    this.#at = this.#end
    this.#end = outerEnd
  }

  /** Where this field's bytes begin; `valueEnd` is where they end. */
  value(): number {
    const end = this.#endOfValue()
    const at = this.#at
    this.#at = end
    this.valueEnd = end
    return at
  }

  /** A text in UTF-8. */
  text(): string {
    return this.#string('utf8')
  }

  /** The same for a text that comes again and again. */
  knownText(): string {
    const at = this.value()
    return this.#known.read(this.#bytes, at, this.valueEnd)
  }

  /** A character for each byte, as header fields are read elsewhere. */
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

/** So many at a time, and none longer: beyond that, decoding costs little by comparison. */
const SLOTS = 64
const MAX_BYTES = 64

/** Texts that callers send again and again, such as domains and the keys of descriptors. One that is known by its bytes needs no decoding and no memory. */
export class KnownTexts {
  readonly #texts: string[] = new Array(SLOTS).fill('')

  /** The text that these bytes are in UTF-8. */
  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from
    if (length === 0 || length > MAX_BYTES) return bytes.toString('utf8', from, to)
    const slot = (bytes[from]! + bytes[to - 1]! + length) % SLOTS
    const known = this.#texts[slot]!
    if (known.length === length && isWritten(known, bytes, from)) return known
    const text = bytes.toString('utf8', from, to)
    // As long as its bytes: ASCII, which can be told by its bytes.
    if (text.length === length) this.#texts[slot] = text
    return text
  }
}

/** Whether each character is the byte at its place. */
function isWritten(text: string, bytes: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[from + i]) return false
  return true
}
