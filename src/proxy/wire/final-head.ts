import { reasonPhrase } from '../../http1/request-line.ts'
import type { FieldLines } from '../downstream.ts'

/** Writes the heads of final responses, byte for byte as `node:http` does. */
export class FinalHead {
  readonly #keepAlive: string
  /** The Date line, until its second is over. */
  #date: string | undefined
  /** Whether the head that was written last announces a chunked body. */
  isChunked = false

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`
  }

  text(status: number, reason: string | undefined, fields: FieldLines, hasBody: boolean, isLast: boolean): string {
    const date = fields.hasDate ? '' : (this.#date ?? this.#newDate())
    const connection = isLast ? 'Connection: close\r\n' : this.#keepAlive
    this.isChunked = hasBody && !fields.hasLength
    const framing = this.isChunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n'
    return `HTTP/1.1 ${status} ${reason ?? reasonPhrase(status)}\r\n${fields.text}${date}${connection}${framing}`
  }

  #newDate(): string {
    const now = new Date()
    const date = `Date: ${now.toUTCString()}\r\n`
    this.#date = date
    // One timer a second costs less than reading the clock for each response.
    setTimeout(() => {
      this.#date = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return date
  }
}
