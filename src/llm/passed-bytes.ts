const EMPTY = Buffer.alloc(0)

/**
 * Collects the bytes to send on. Adjacent bytes that are not changed need no copy. Others are joined as a latin1 string, which costs half as much as
 * a Buffer and is what is finally written to a socket.
 */
export class PassedBytes {
  /** Text collected before the current run of adjacent bytes. */
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

  /** Adds text, which must be ASCII. */
  add(text: string): void {
    this.#endRun()
    this.#text += text
  }

  /** Returns what was collected and starts over. The result may be a view of the bytes that were passed. */
  take(): Buffer | string {
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

  #joined(): string {
    this.#endRun()
    return this.#text
  }

  #endRun(): void {
    if (this.#end > this.#start) this.#text += this.#bytes.toString('latin1', this.#start, this.#end)
    this.#start = this.#end
  }
}
