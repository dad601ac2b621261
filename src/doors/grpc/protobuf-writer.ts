import { LENGTH, VARINT } from './protobuf-reader.ts'

const SLAB_BYTES = 8192
const MORE = 0x80
/** Bytes reserved for the length of a nested message. Most are shorter than 128 bytes; the contents of longer ones are moved. */
const LENGTH_BYTES = 1
/** Up to this length, a loop is faster than a native call for text that is mostly ASCII. */
const SHORT = 32

/** Writes Protocol Buffers messages one after the other into the same buffer while it has room. One writer serves many messages. */
export class ProtobufWriter {
  #bytes = Buffer.allocUnsafeSlow(SLAB_BYTES)
  /** Where the current message begins. */
  #from = 0
  #at = 0

  /** Discards the current message. */
  clear(): void {
    this.#at = this.#from
  }

  /** Returns the message, which may be kept, since the next one is written after it. */
  finish(): Uint8Array {
    const message = this.#bytes.subarray(this.#from, this.#at)
    this.#from = this.#at
    return message
  }

  /** Writes a whole number of at least 0. */
  number(field: number, value: number): void {
    this.#room(20)
    this.#varint(field * 8 + VARINT)
    this.#varint(value)
  }

  text(field: number, text: string): void {
    const length = utf8Bytes(text)
    this.#room(20 + length)
    this.#varint(field * 8 + LENGTH)
    this.#varint(length)
    const bytes = this.#bytes
    const at = this.#at
    this.#at = at + length
    if (length > SHORT || length !== text.length) bytes.write(text, at, 'utf8')
    else for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i)
  }

  /** Begins a nested message that has exactly this many bytes, which must be written next. */
  begin(field: number, bytes: number): void {
    this.#room(20)
    this.#varint(field * 8 + LENGTH)
    this.#varint(bytes)
  }

  /** Begins a nested message of unknown length. Returns a position for `close`. */
  open(field: number): number {
    this.#room(10 + LENGTH_BYTES)
    this.#varint(field * 8 + LENGTH)
    this.#at += LENGTH_BYTES
    return this.#at - this.#from
  }

  close(opened: number): void {
    const length = this.#at - this.#from - opened
    const more = varintBytes(length) - LENGTH_BYTES
    if (more > 0) {
      this.#room(more)
      this.#bytes.copyWithin(this.#from + opened + more, this.#from + opened, this.#at)
    }
    this.#at = this.#from + opened - LENGTH_BYTES
    this.#varint(length)
    this.#at += length
  }

  /** Writes ASCII characters of a string field that was begun with `open`. */
  characters(text: string): void {
    this.#room(text.length)
    const bytes = this.#bytes
    const at = this.#at
    for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i)
    this.#at = at + text.length
  }

  #varint(value: number): void {
    let rest = value
    while (rest >= MORE) {
      this.#bytes[this.#at++] = (rest % MORE) + MORE
      rest = Math.floor(rest / MORE)
    }
    this.#bytes[this.#at++] = rest
  }

  /** Ensures room for this many bytes. If there is none, the current message moves to a new buffer. */
  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const written = this.#at - this.#from
    const larger = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, (written + bytes) * 2))
    this.#bytes.copy(larger, 0, this.#from, this.#at)
    this.#bytes = larger
    this.#from = 0
    this.#at = written
  }
}

/** Returns how many bytes a string field takes, with its tag, if its number is at most 15. */
export function textBytes(text: string): number {
  const bytes = utf8Bytes(text)
  return 1 + varintBytes(bytes) + bytes
}

function utf8Bytes(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text)
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= MORE) return Buffer.byteLength(text)
  return text.length
}

/** Returns how many bytes a whole number of at least 0 takes. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= MORE; rest = Math.floor(rest / MORE)) bytes++
  return bytes
}
