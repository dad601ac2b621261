/** Collects the bytes to send on. Those that lie side by side and are not changed need no copy. */
export class PassedBytes {
  /** What came before the run, one letter a byte: cheaper than small Buffers. */
  #text = ''
  #bytes: Buffer = EMPTY
  #start = 0
  #end = 0

  pass(bytes: Buffer, start: number, end: number): void {
    if (bytes !== this.#bytes || start !== this.#end) {
      this.#endRun()
      this.#bytes = bytes
      this.#start = start
    }
    this.#end = end
  }

  /** Passes bytes with a text in ASCII in place of those from `at` up to `behind`; it is not shorter. */
  passSpliced(bytes: Buffer, start: number, end: number, at: number, behind: number, text: string): void {
    const isAlone = this.#text === '' && this.#start === this.#end && end - start === bytes.length
    if (isAlone) {
      const spliced = withText(bytes, at, behind, text)
      return this.pass(spliced, 0, spliced.length)
    }
    this.pass(bytes, start, at)
    this.add(text)
    this.pass(bytes, behind, end)
  }

  /** Adds text in ASCII. */
  add(text: string): void {
    this.#endRun()
    this.#text += text
  }

  /** Returns what was collected and starts anew. It may be a view of the bytes that were passed. */
  take(): Buffer {
    const taken = this.#text === '' ? this.#run() : this.#joined()
    this.#text = ''
    this.#bytes = EMPTY
    this.#start = 0
    this.#end = 0
    return taken
  }

  #run(): Buffer {
    const bytes = this.#bytes
    return this.#start === 0 && this.#end === bytes.length ? bytes : bytes.subarray(this.#start, this.#end)
  }

  #joined(): Buffer {
    this.#endRun()
    return Buffer.from(this.#text, 'latin1')
  }

  #endRun(): void {
    if (this.#end > this.#start) this.#text += this.#bytes.toString('latin1', this.#start, this.#end)
    this.#start = this.#end
  }
}

/** For one event, which most chunks are: twice as fast as joining texts. */
function withText(bytes: Buffer, at: number, behind: number, text: string): Buffer {
  const shift = at + text.length - behind
  const result = Buffer.allocUnsafe(bytes.length + shift)
  // Copied whole, because a view of the first part costs more than the few bytes that are then overwritten.
  result.set(bytes, 0)
  result.write(text, at, 'latin1')
  for (let i = behind; i < bytes.length; i++) result[i + shift] = bytes[i]!
  return result
}

const EMPTY = Buffer.alloc(0)
