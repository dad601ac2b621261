/**
 * Reads the answers of a connection, and leaves out what may differ between two of the same request: the time of day, where chunks end, and what
 * a client gets behind its own end only to find out whether it is still there.
 */
export class AnswerReader {
  /** Whole ones, interim ones too. */
  readonly answers: string[] = []
  finals = 0
  /** The client has ended its side. */
  hasClientEnded = false
  #unread = ''
  /** Another protocol follows, or nothing that a client could read. */
  #isOver = false
  readonly #methods: string[] = []

  /** Expects an answer to a request with this method. Behind the last one that was told, the method is guessed. */
  expect(methods: readonly string[]): void {
    this.#methods.push(...methods)
  }

  push(bytes: string): void {
    this.#unread += bytes
    while (this.#readOne(false));
  }

  /** To be called when nothing more will come. Returns what was not a whole answer. */
  end(): string {
    while (this.#readOne(true));
    return this.#unread.replace(DATE, 'Date: …')
  }

  #readOne(hasEnded: boolean): boolean {
    const end = this.#unread.indexOf('\r\n\r\n') + 4
    if (end < 4 || this.#isOver) return false
    const head = this.#unread.slice(0, end)
    const status = Number(head.slice(9, 12))
    const isFinal = status >= 200 || status === 101
    const method = this.#methods[this.finals]
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? -1)
    const isChunked = /^transfer-encoding: chunked\r$/im.test(head)
    const isBodiless = status < 200 || status === 204 || status === 304 || method === 'HEAD' || this.#isHead(method, end, hasEnded)
    if (isBodiless || (length < 0 && !isChunked && hasEnded && end === this.#unread.length)) return this.#take(head, end, '', isFinal)
    if (isChunked) return this.#readChunks(head, end)
    if (length < 0 || this.#unread.length < end + length) return false
    return this.#take(head, end + length, this.#unread.slice(end, end + length), true)
  }

  /** An answer to a method that is not known has no body where the next answer or the end follows. */
  #isHead(method: string | undefined, end: number, hasEnded: boolean): boolean {
    if (method !== undefined) return false
    return end === this.#unread.length ? hasEnded : this.#unread.startsWith('HTTP/1.1 ', end)
  }

  #readChunks(head: string, start: number): boolean {
    let body = ''
    for (let at = start; ; ) {
      const lineEnd = this.#unread.indexOf('\r\n', at)
      if (lineEnd < 0) return false
      const line = this.#unread.slice(at, lineEnd)
      if (!/^[0-9a-fA-F]{1,8}$/.test(line)) {
        this.#isOver = true
        return false
      }
      const size = Number.parseInt(line, 16)
      if (size === 0) {
        const end = this.#unread.startsWith('\r\n', lineEnd + 2) ? lineEnd + 4 : this.#unread.indexOf('\r\n\r\n', lineEnd) + 4
        if (end < 4 || end > this.#unread.length) return false
        return this.#take(head, end, `${body}\nTRAILERS ${this.#unread.slice(lineEnd + 2, end)}`, true)
      }
      if (this.#unread.length < lineEnd + 4 + size) return false
      body += this.#unread.slice(lineEnd + 2, lineEnd + 2 + size)
      at = lineEnd + 4 + size
    }
  }

  #take(head: string, end: number, body: string, isFinal: boolean): boolean {
    // It may also be leave to send a body that has come meanwhile.
    const isProbe = this.finals >= this.#methods.length && head === 'HTTP/1.1 100 Continue\r\n\r\n'
    if (!isProbe) this.answers.push(head.replace(DATE, 'Date: …') + (this.hasClientEnded ? body.replaceAll(COMMENT, '') : body))
    this.#unread = this.#unread.slice(end)
    if (isFinal) this.finals++
    if (head.startsWith('HTTP/1.1 101 ')) this.#isOver = true
    return true
  }
}

const COMMENT = ':\n\n'
const DATE = /^Date: (?!Thu, 01 Jan 2026 00:00:00 GMT).*$/m
