import { LENGTH, VARINT } from './protobuf-reader.ts'

const SLAB_BYTES = 8192
const MORE = 0x80
/** What a message inside is given for its length. Most are shorter than 128 bytes. */
const LENGTH_BYTES = 1
/** For texts up to this length, mostly ASCII, a loop is quicker than a call of native code. */
const SHORT = 32

/** Writes Protocol Buffers messages, one behind the other into the same memory while there is room. One is used for many messages. */
export class ProtobufWriter {
  #bytes = Buffer.allocUnsafeSlow(SLAB_BYTES)
  /** Where the message begins. */
  #from = 0
  #at = 0

  /** Drops what was written of a message. */
  clear(): void {
    this.#at = this.#from
  }

  /** The message may be kept: what comes next is written behind it. */
  finish(): Uint8Array {
    const message = this.#bytes.subarray(this.#from, this.#at)
    this.#from = this.#at
    return message
  }

  /** A whole number of at least 0. */
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

  /** Begins a message inside this one that is written next and has this many bytes. */
  begin(field: number, bytes: number): void {
    this.#room(20)
    this.#varint(field * 8 + LENGTH)
    this.#varint(bytes)
  }

  /** The same where its length is not known before; returns what `close` needs. */
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

  /** Characters of a text in ASCII that was opened as if it were a message. */
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

  /** What is written of the message moves where there is more. */
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

/** What a text takes as one of the first fifteen fields of a message. */
export function textBytes(text: string): number {
  const bytes = utf8Bytes(text)
  return 1 + varintBytes(bytes) + bytes
}

function utf8Bytes(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text)
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= MORE) return Buffer.byteLength(text)
  return text.length
}

/** What a whole number of at least 0 takes. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= MORE; rest = Math.floor(rest / MORE)) bytes++
  return bytes
}
