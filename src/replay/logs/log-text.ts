import { END_OF_LINE } from '../unreadable-lines.ts'
import { HarDocument } from './har-document.ts'
import { LogLines } from './log-lines.ts'
import type { LoggedRequest } from './logged-request.ts'

/** Is told of each request of a log, and where one cannot be read. */
export interface LogListener {
  onRequest(request: LoggedRequest): void
  /** `place`: the line's number, `entry 3`, or END. */
  onUnreadable(place: string, why: string): void
}

const BYTE_ORDER_MARK = '\xef\xbb\xbf'
const HAR = /^\s*\{\s*"log"\s*:\s*\{/
/** How much of a log is looked at to find out what it is. */
const LOOKED_AT = 512

/** The text of a log in pieces of any size; by its look it is a HAR document, or lines. One character is one byte. */
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
    if (this.#har?.isWhole === false) this.#listener.onUnreadable(END_OF_LINE, 'the document ends in the middle')
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
