const NO_BYTES = Buffer.alloc(0)
const LEAST_BYTES = 256

/** What has come on a connection and waits for its turn, in memory of its own: what is read is in a buffer that all connections share. */
export class UnreadBytes {
  buffer: Buffer = NO_BYTES
  at = 0
  end = 0

  get size(): number {
    return this.end - this.at
  }

  /** Adds a part of these bytes. Room is doubled: bytes that come one at a time must not take quadratic time. */
  add(bytes: Buffer, from: number, to: number): void {
    const length = to - from
    if (this.end + length > this.buffer.length) this.#makeRoom(length)
    bytes.copy(this.buffer, this.end, from, to)
    this.end += length
  }

  /** Everything before `at` was read. */
  readTo(at: number): void {
    if (at === this.end) this.clear()
    else this.at = at
  }

  clear(): void {
    this.buffer = NO_BYTES
    this.at = 0
    this.end = 0
  }

  /** Returns what waits; from now on nothing does. */
  take(): Buffer {
    const bytes = this.buffer.subarray(this.at, this.end)
    this.clear()
    return bytes
  }

  #makeRoom(length: number): void {
    const size = this.size
    // A long pipeline that came at once is not copied into twice its size.
    const capacity = size === 0 ? Math.max(length, LEAST_BYTES) : Math.max(2 * size, size + length)
    const larger = Buffer.allocUnsafeSlow(capacity)
    this.buffer.copy(larger, 0, this.at, this.end)
    this.buffer = larger
    this.at = 0
    this.end = size
  }
}
