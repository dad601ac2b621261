import type { Socket } from 'node:net'

const LEAST_BYTES = 1024

/** Collects pieces of bytes in one buffer, because a Buffer for a single byte takes some 200 bytes. Uses up to four times the memory of its content. */
export class GrowingBuffer {
  #buffer: Buffer = Buffer.alloc(0)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The bytes that were added so far. They share the memory of the buffer. */
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

/** Tests overwrite released reads with this byte, so that any later use of them shows. */
const POISON = 0x21

let isPoisoned = false

/** Allocates memory that many connections read into, one after the other. The bytes of a read are valid only until its callback returns. */
export function newReadBuffer(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(bytes)
}

/** The owner of a read buffer calls this when the receiver of its first `length` bytes is done with them. */
export function releaseRead(buffer: Uint8Array, length: number): void {
  if (isPoisoned) buffer.fill(POISON, 0, length)
}

/** For tests: from now on every read is overwritten once it is released, as another connection's next read would do. */
export function poisonReads(): void {
  isPoisoned = true
}

/** Node writes strings up to this length from its stack, without allocating memory. */
const MAX_TEXT_BYTES = 16 * 1024

/** Longer writes are copied to this buffer, which has room for a whole read and the texts around it. It is reused once the system has taken them. */
let staging = Buffer.allocUnsafeSlow(72 * 1024)

/**
 * Writes a latin1 string, then bytes or another latin1 string, then one more, in a single write. The caller may reuse the bytes when this
 * returns, however many of them the system has taken. Returns false if the socket wants no more for now.
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

/** Returns bytes as a latin1 string. */
export function byteText(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}

/**
 * Copies a latin1 string to memory of its own, in one piece. In V8, a concatenated string is a tree of its pieces until it is read, and a
 * substring keeps the whole string in memory.
 */
export function flatText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
