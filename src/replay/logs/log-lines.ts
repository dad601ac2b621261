import { flatText } from '../../flat-text.ts'
import { readCombinedLine } from './combined-line.ts'
import { readJsonLine } from './json-line.ts'
import type { LoggedRequest } from './logged-request.ts'

const MAX_LINE_CHARACTERS = 1024 ** 2

/** Lines in the combined format or of JSON, in pieces of any size. One character is one byte. A line that is too long is not kept. */
export class LogLines {
  lineCount = 0
  readonly #onLine: (request: LoggedRequest | string, line: number) => void
  /** What came of the current line in earlier pieces. */
  #earlier = ''
  #isTooLong = false
  /** Characters that were skipped, less those that were copied since. */
  #skipped = 0

  constructor(onLine: (request: LoggedRequest | string, line: number) => void) {
    this.#onLine = onLine
  }

  push(piece: string): void {
    let from = 0
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', from)) {
      this.#endLine(from === 0 ? this.#earlier + piece.slice(0, end) : piece.slice(from, end))
      from = end + 1
    }
    if (from === piece.length) return
    this.#isTooLong ||= this.#earlier.length + piece.length - from > MAX_LINE_CHARACTERS
    this.#earlier = this.#isTooLong ? '' : this.#earlier + piece.slice(from)
  }

  /** The last line may have no end. */
  end(): void {
    if (this.#earlier !== '' || this.#isTooLong) this.#endLine(this.#earlier)
  }

  #endLine(line: string): void {
    this.lineCount++
    const isTooLong = this.#isTooLong || line.length > MAX_LINE_CHARACTERS
    this.#earlier = ''
    this.#isTooLong = false
    const read = isTooLong ? 'it is longer than 1 MiB' : this.#read(line)
    if (read === undefined || typeof read === 'string') this.#skipped += isTooLong ? MAX_LINE_CHARACTERS : line.length
    if (read !== undefined) this.#onLine(read, this.lineCount)
  }

  /** Undefined for a line of white space. */
  #read(line: string): LoggedRequest | string | undefined {
    const first = firstCharacter(line)
    if (first === line.length) return undefined
    return line[first] === '{' ? readJsonLine(line) : readCombinedLine(this.#ownText(line))
  }

  /** A line keeps its whole piece in memory: where much of that is no request, it is copied. */
  #ownText(line: string): string {
    if (this.#skipped === 0) return line
    this.#skipped = Math.max(0, this.#skipped - line.length)
    return flatText(line)
  }
}

/** After white space. */
function firstCharacter(line: string): number {
  let at = 0
  while (at < line.length && (line.charCodeAt(at) === 0x20 || line.charCodeAt(at) === 0x09 || line.charCodeAt(at) === 0x0d)) at++
  return at
}
