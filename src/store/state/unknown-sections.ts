/** The most that is kept in memory of what this program cannot read. */
export const MAX_UNKNOWN_BYTES = 16 * 1024 * 1024

/** Sections of a file that this program does not know, headers and all, to be written back byte for byte. */
export class UnknownSections {
  #kept = Buffer.alloc(0)
  #length = 0
  #offered = 0

  /** How many bytes there were, kept or not. */
  get bytesOffered(): number {
    return this.#offered
  }

  get fits(): boolean {
    return this.#offered <= MAX_UNKNOWN_BYTES
  }

  get bytes(): Buffer {
    return this.#kept.subarray(0, this.#length)
  }

  add(bytes: Buffer): void {
    this.#offered += bytes.length
    if (!this.fits) return
    if (this.#offered > this.#kept.length) this.#growTo(Math.min(MAX_UNKNOWN_BYTES, this.#offered * 2))
    bytes.copy(this.#kept, this.#length)
    this.#length = this.#offered
  }

  #growTo(length: number): void {
    const larger = Buffer.alloc(length)
    this.#kept.copy(larger, 0, 0, this.#length)
    this.#kept = larger
  }
}
