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
