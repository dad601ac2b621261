/** Numbers and texts one after the other, little-endian. Grows as needed. */
export class ByteWriter {
  #bytes = Buffer.alloc(512)
  #length = 0

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  byte(value: number): void {
    this.#room(1)
    this.#length = this.#bytes.writeUInt8(value, this.#length)
  }

  word(value: number): void {
    this.#room(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  double(value: number): void {
    this.#room(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  doubles(values: readonly number[]): void {
    this.byte(values.length)
    for (const value of values) this.double(value)
  }

  /** As many bytes as it has pairs of digits. */
  hex(digits: string): void {
    this.#room(digits.length / 2)
    this.#length += this.#bytes.write(digits, this.#length, 'hex')
  }

  /** At most 255 bytes. */
  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.byte(length)
    this.#room(length)
    this.#length += this.#bytes.write(value, this.#length)
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const larger = Buffer.alloc((this.#length + bytes) * 2)
    this.#bytes.copy(larger)
    this.#bytes = larger
  }
}

/** Reads what a ByteWriter wrote. Throws a RangeError where there is less. */
export class ByteReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  byte(): number {
    return this.#take(1).readUInt8()
  }

  word(): number {
    return this.#take(4).readUInt32LE()
  }

  double(): number {
    return this.#take(8).readDoubleLE()
  }

  doubles(): number[] {
    return Array.from({ length: this.byte() }, () => this.double())
  }

  hex(digits: number): string {
    return this.#take(digits / 2).toString('hex')
  }

  text(): string {
    return this.#take(this.byte()).toString()
  }

  #take(bytes: number): Buffer {
    const from = this.#at
    if (from + bytes > this.#bytes.length) throw new RangeError('fewer bytes than expected')
    this.#at = from + bytes
    return this.#bytes.subarray(from, this.#at)
  }
}
