import type { Socket } from 'node:net'

const LEAST_BYTES = 1024

/** Collects pieces of bytes in one buffer: as a Buffer of its own, a piece of one byte takes some 200. Uses up to four times what it holds. */
export class GrowingBuffer {
  #buffer: Buffer = Buffer.alloc(0)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** What was added so far. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size)
  }

  add(piece: Uint8Array): void {
    const size = this.#size + piece.length
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#buffer.length, size, LEAST_BYTES))
      this.#buffer.copy(larger, 0, 0, this.#size)
      this.#buffer = larger
    }
    this.#buffer.set(piece, this.#size)
    this.#size = size
  }
}

/** What tests overwrite a read with: it shows wherever it does not belong. */
const POISON = 0x21

let isPoisoned = false

/** Memory that many connections read into, one after the other. What a read brought belongs to whoever gets it until the callback returns. */
export function newReadBuffer(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(bytes)
}

/** To be called by the owner of a read buffer when whoever got its first `length` bytes is done with them. */
export function releaseRead(buffer: Uint8Array, length: number): void {
  if (isPoisoned) buffer.fill(POISON, 0, length)
}

/** For tests: from now on every read is overwritten once it is released, as another connection's next read would do. */
export function poisonReads(): void {
  isPoisoned = true
}

/** Node copies shorter texts before it writes them, to where no memory is allocated. */
const MAX_TEXT_BYTES = 16 * 1024

/** Larger pieces are copied to it: there is room for a whole read and what is around it. It is used again as soon as the system has taken them. */
let staging = Buffer.allocUnsafeSlow(72 * 1024)

/**
 * Writes a text of bytes, then bytes or another such text, then one more, in one write. The bytes are the caller's again when this returns, whatever
 * the system has taken of them. Returns false when the socket wants no more for now.
 */
export function writeAll(socket: Socket, before: string, bytes: Buffer | string, behind: string): boolean {
  const length = before.length + bytes.length + behind.length
  if (length <= MAX_TEXT_BYTES) return socket.write(before + byteText(bytes) + behind, 'latin1')
  const isStaged = length <= staging.length && socket.writableLength === 0
  const copy = isStaged ? staging : Buffer.allocUnsafeSlow(length)
  copy.write(before, 0, 'latin1')
  if (typeof bytes === 'string') copy.write(bytes, before.length, 'latin1')
  else bytes.copy(copy, before.length)
  copy.write(behind, before.length + bytes.length, 'latin1')
  const hasRoom = socket.write(copy.length === length ? copy : copy.subarray(0, length))
  if (isStaged && socket.writableLength > 0) staging = Buffer.allocUnsafeSlow(staging.length)
  return hasRoom
}

/** Bytes as a text with one letter a byte. */
export function byteText(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}

/**
 * A copy of a text of bytes, in one piece and in memory of its own. A text that was put together is a tree of its pieces until it is read, and a
 * part of a text keeps all of it in memory.
 */
export function flatText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
