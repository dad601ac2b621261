import { LENGTH, VARINT } from './protobuf-reader.ts'

const INITIAL_BYTES = 4096
const MORE = 0x80
/** The longest length that a message inside may have, in bytes of its varint: 2 MiB. */
const LENGTH_BYTES = 3
/** For texts up to this length, mostly ASCII, a loop is quicker than a call of native code. */
const SHORT = 32

/** Writes Protocol Buffers messages. One is used for many messages. */
export class ProtobufWriter {
  #bytes = Buffer.allocUnsafe(INITIAL_BYTES)
  #at = 0

  clear(): void {
    this.#at = 0
  }

  /** A copy of what was written. */
  finish(): Uint8Array {
    const message = Buffer.allocUnsafe(this.#at)
    this.#bytes.copy(message, 0, 0, this.#at)
    this.#at = 0
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
    return this.#at
  }

  close(contentAt: number): void {
    const length = this.#at - contentAt
    // Its length takes fewer bytes than were kept for it.
    const bytes = length < 0x80 ? 1 : length < 0x4000 ? 2 : 3
    const from = contentAt - LENGTH_BYTES
    this.#bytes.copyWithin(from + bytes, contentAt, this.#at)
    this.#at = from
    this.#varint(length)
    this.#at += length
  }

  #varint(value: number): void {
    let rest = value
    while (rest >= MORE) {
      this.#bytes[this.#at++] = (rest % MORE) + MORE
      rest = Math.floor(rest / MORE)
    }
    this.#bytes[this.#at++] = rest
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
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
