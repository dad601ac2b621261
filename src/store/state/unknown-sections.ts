/** The most memory for sections that this program cannot read. */
export const MAX_UNKNOWN_BYTES = 16 * 1024 * 1024

/** Sections of a file that this program cannot read, including their headers, to be written back byte for byte. */
export class UnknownSections {
  #kept = Buffer.alloc(0)
  #length = 0
  #total = 0

  /** All bytes that were added, kept or not. */
  get totalBytes(): number {
    return this.#total
  }

  get fits(): boolean {
    return this.#total <= MAX_UNKNOWN_BYTES
  }

  get bytes(): Buffer {
    return this.#kept.subarray(0, this.#length)
  }

  add(bytes: Buffer): void {
    this.#total += bytes.length
    if (!this.fits) return
    if (this.#total > this.#kept.length) this.#growTo(Math.min(MAX_UNKNOWN_BYTES, this.#total * 2))
    bytes.copy(this.#kept, this.#length)
    this.#length = this.#total
  }

  #growTo(length: number): void {
    const larger = Buffer.alloc(length)
    this.#kept.copy(larger, 0, 0, this.#length)
    this.#kept = larger
  }
}
