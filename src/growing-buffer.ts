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
