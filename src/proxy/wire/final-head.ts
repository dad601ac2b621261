import { statusReason } from '../../http/status-reason.ts'
import type { FieldLines } from '../field-lines.ts'

/** Writes the heads of final responses, byte for byte as `node:http` does. */
export class FinalHead {
  readonly #keepAlive: string
  /** Until its second is over. */
  #date: string | undefined
  /** Of the head that was written last. */
  isChunked = false

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`
  }

  text(status: number, reason: string | undefined, fields: FieldLines, hasBody: boolean, isLast: boolean): string {
    const date = fields.hasDate ? '' : (this.#date ?? this.#newDate())
    const connection = isLast ? 'Connection: close\r\n' : this.#keepAlive
    this.isChunked = hasBody && !fields.hasLength
    const framing = this.isChunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n'
    return `HTTP/1.1 ${status} ${reason ?? statusReason(status)}\r\n${fields.text}${date}${connection}${framing}`
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
