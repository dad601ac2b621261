import type { HeaderList } from '../../http/header-list.ts'
import { statusReason } from '../../http/status-reason.ts'

/** Writes the heads of final responses down byte for byte as `node:http` does. */
export class FinalHead {
  readonly #keepAlive: string
  /** Until its second is over. */
  #date: string | undefined
  /** Of the head that was written last. */
  isChunked = false

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`
  }

  text(status: number, reason: string | undefined, fields: HeaderList, hasBody: boolean, isLast: boolean): string {
    let text = `HTTP/1.1 ${status} ${reason ?? statusReason(status)}\r\n`
    let hasDate = false
    let hasLength = false
    for (let i = 0; i < fields.length; i += 2) {
      const name = fields[i]!
      text += `${name}: ${fields[i + 1]}\r\n`
      if (name.length === 4) hasDate ||= name.toLowerCase() === 'date'
      else if (name.length === 14) hasLength ||= name.toLowerCase() === 'content-length'
    }
    if (!hasDate) text += this.#date ?? this.#newDate()
    text += isLast ? 'Connection: close\r\n' : this.#keepAlive
    this.isChunked = hasBody && !hasLength
    return this.isChunked ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`
  }

  #newDate(): string {
    const now = new Date()
    const date = `Date: ${now.toUTCString()}\r\n`
    this.#date = date
    // A timer a second costs less than a look at the clock per response.
    setTimeout(() => {
      this.#date = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return date
  }
}
