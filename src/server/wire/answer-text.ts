import { STATUS_CODES } from 'node:http'
import type { DecisionAnswer } from '../decision-endpoint.ts'

/** Writes answers down byte for byte as `node:http` does on a connection that it keeps. */
export class AnswerText {
  readonly #keepAlive: string
  readonly #statusLines = new Map<number, string>()
  /** The fields that all answers of this second end with. */
  #ending: string | undefined

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`
  }

  of({ status, headers }: DecisionAnswer): string {
    let text = this.#statusLine(status)
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
    return text + (this.#ending ?? this.#newEnding())
  }

  #statusLine(status: number): string {
    let line = this.#statusLines.get(status)
    if (line === undefined) {
      line = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
      this.#statusLines.set(status, line)
    }
    return line
  }

  #newEnding(): string {
    const now = new Date()
    this.#ending = `Content-Length: 0\r\nDate: ${now.toUTCString()}\r\n${this.#keepAlive}`
    // A timer a second costs less than a look at the clock per answer.
    setTimeout(() => {
      this.#ending = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return this.#ending
  }
}
