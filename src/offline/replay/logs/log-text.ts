import { flatText } from '../../../memory/latin1-text.ts'
import { readCombinedLine } from './combined-line.ts'
import { HarDocument } from './har-document.ts'
import { readJsonLine } from './json-line.ts'
import { END_OF_LOG, type LoggedRequest } from './logged-request.ts'

/** Receives each request of a log, and each position where none could be read. */
export interface LogListener {
  onRequest(request: LoggedRequest): void
  /** `position` is the number of the line, `entry 3`, or END_OF_LOG. */
  onUnreadable(position: string, why: string): void
}

const BYTE_ORDER_MARK = '\xef\xbb\xbf'
const HAR = /^\s*\{\s*"log"\s*:\s*\{/
/** How much of a log is examined to find out its format. */
const LOOKED_AT = 512

/** Reads the text of a log in pieces of any size, as latin1 strings, and detects whether it is a HAR document or lines. */
export class LogText {
  readonly #listener: LogListener
  #start = ''
  #lines: LogLines | undefined
  #har: HarDocument | undefined

  constructor(listener: LogListener) {
    this.#listener = listener
  }

  push(piece: string): void {
    if (this.#lines !== undefined) return this.#lines.push(piece)
    if (this.#har !== undefined) return this.#har.push(piece)
    this.#start += piece
    if (this.#start.length >= LOOKED_AT) this.#begin()
  }

  end(): void {
    if (this.#lines === undefined && this.#har === undefined) this.#begin()
    this.#lines?.end()
    if (this.#har?.isWhole === false) this.#listener.onUnreadable(END_OF_LOG, 'the document ends in the middle')
  }

  #begin(): void {
    const text = this.#start.startsWith(BYTE_ORDER_MARK) ? this.#start.slice(BYTE_ORDER_MARK.length) : this.#start
    this.#start = ''
    if (HAR.test(text)) this.#har = new HarDocument((read) => this.#pass(read, 'entry ', this.#har!.entryCount))
    else this.#lines = new LogLines((read, line) => this.#pass(read, '', line))
    this.push(text)
  }

  #pass(read: LoggedRequest | string, unit: string, number: number): void {
    if (typeof read === 'string') this.#listener.onUnreadable(`${unit}${number}`, read)
    else this.#listener.onRequest(read)
  }
}

const MAX_LINE_CHARACTERS = 1024 ** 2

/** Reads lines in the combined format or of JSON, in pieces of any size, as latin1 strings. A line that is too long is skipped. */
export class LogLines {
  lineCount = 0
  readonly #onLine: (request: LoggedRequest | string, line: number) => void
  /** The part of the current line that earlier pieces had. */
  #earlier = ''
  #isTooLong = false
  /** Characters that were skipped, minus those that have been copied since. */
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

  /** The last line may lack a line end. */
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

  /** Returns undefined for a line of white space. */
  #read(line: string): LoggedRequest | string | undefined {
    const first = firstCharacter(line)
    if (first === line.length) return undefined
    return line[first] === '{' ? readJsonLine(line) : readCombinedLine(this.#ownText(line))
  }

  /** A line keeps its whole piece in memory, so it is copied if much of that is not part of a request. */
  #ownText(line: string): string {
    if (this.#skipped === 0) return line
    this.#skipped = Math.max(0, this.#skipped - line.length)
    return flatText(line)
  }
}

/** Returns the index of the first character after white space. */
function firstCharacter(line: string): number {
  let at = 0
  while (at < line.length && (line.charCodeAt(at) === 0x20 || line.charCodeAt(at) === 0x09 || line.charCodeAt(at) === 0x0d)) at++
  return at
}
