const [CR, LF, DIGIT_0, BULK, ARRAY] = [0x0d, 0x0a, 0x30, 0x24, 0x2a]
const NO_BYTES = Buffer.alloc(0)
const INITIAL_BYTES = 16 * 1024
/** A buffer that has grown beyond this is not kept. */
const MAX_KEPT_BYTES = 1024 * 1024
/** Longer texts are written by Node: a call of it costs as much as this many characters. */
const SHORT = 256
/** The number of a length or a count, its type and the ends of lines take no more than this. */
const OVERHEAD_BYTES = 32

/**
 * Commands as Redis reads them (RESP 2), one after the other. Nearly all of it is short and ASCII, and is written character by character: that takes
 * less than half the time of joining texts and encoding them.
 */
export class CommandBytes {
  #bytes: Buffer = NO_BYTES
  length = 0

  /** Begins a command of so many parts, its name among them. */
  begin(partCount: number): void {
    this.#makeRoom(OVERHEAD_BYTES)
    this.#addHead(ARRAY, partCount)
  }

  /** Adds the next part of the command. */
  add(text: string): void {
    const { length } = text
    this.#makeRoom(3 * length + OVERHEAD_BYTES)
    const start = this.length
    this.#addHead(BULK, length)
    if (length > SHORT || !this.#addAscii(text)) {
      this.length = start
      const byteLength = Buffer.byteLength(text)
      this.#addHead(BULK, byteLength)
      this.length += this.#bytes.write(text, this.length, 'utf8')
    }
    this.#endLine()
  }

  /** Adds a part that consists of packed doubles. */
  addNumbers(numbers: readonly number[]): void {
    const byteLength = numbers.length * Float64Array.BYTES_PER_ELEMENT
    this.#makeRoom(byteLength + OVERHEAD_BYTES)
    this.#addHead(BULK, byteLength)
    const bytes = this.#bytes
    let at = this.length
    for (let i = 0; i < numbers.length; i++) at = bytes.writeDoubleLE(numbers[i]!, at)
    this.length = at
    this.#endLine()
  }

  /** Returns all that was added; from here on, it is the caller's. `keep` gives the buffer back if it is no longer needed. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.length)
    this.#bytes = NO_BYTES
    this.length = 0
    return taken
  }

  /** Uses the buffer of bytes that were taken again. */
  keep(taken: Buffer): void {
    const { byteLength } = taken.buffer
    if (this.#bytes.length === 0 && byteLength <= MAX_KEPT_BYTES) this.#bytes = Buffer.from(taken.buffer)
  }

  clear(): void {
    this.length = 0
  }

  /** Returns false if the text is not ASCII. */
  #addAscii(text: string): boolean {
    const bytes = this.#bytes
    let at = this.length
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) return false
      bytes[at++] = code
    }
    this.length = at
    return true
  }

  #addHead(type: number, number: number): void {
    const bytes = this.#bytes
    bytes[this.length++] = type
    let divisor = 1
    while (divisor * 10 <= number) divisor *= 10
    for (let rest = number; divisor >= 1; divisor /= 10) {
      const digit = Math.floor(rest / divisor)
      bytes[this.length++] = DIGIT_0 + digit
      rest -= digit * divisor
    }
    this.#endLine()
  }

  #endLine(): void {
    this.#bytes[this.length++] = CR
    this.#bytes[this.length++] = LF
  }

  #makeRoom(byteLength: number): void {
    const needed = this.length + byteLength
    if (needed <= this.#bytes.length) return
    const grown = Buffer.allocUnsafeSlow(Math.max(INITIAL_BYTES, 2 * needed))
    this.#bytes.copy(grown, 0, 0, this.length)
    this.#bytes = grown
  }
}
