import { STATUS_CODES } from 'node:http'
import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import { RateLimitText } from '../../decide/rate-limit-text.ts'
import { flatText } from '../../flat-text.ts'

/** Writes answers down byte for byte as `node:http` does on a connection that it keeps. */
export class AnswerText {
  readonly #keepAlive: string
  readonly #statusLines = new Map<number, string>()
  /** What most answers are. */
  readonly #allowed = new RateLimitText('HTTP/1.1 200 OK\r\n')
  /** The fields that all answers of this second end with. */
  #ending: string | undefined

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`
  }

  of(answer: DecisionAnswer): string {
    const { status, decision, isDebug, reservation } = answer
    const ending = this.#ending ?? this.#newEnding()
    const isUsual = !isDebug && reservation === undefined
    if (isUsual && decision?.action === 'allow' && decision.limit !== undefined) return this.#allowed.of(decision.limit) + ending
    const headers = answerHeaders(answer)
    let text = this.#statusLine(status)
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
    return text + ending
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
    this.#ending = flatText(`Content-Length: 0\r\nDate: ${now.toUTCString()}\r\n${this.#keepAlive}`)
    // A timer a second costs less than a look at the clock per answer.
    setTimeout(() => {
      this.#ending = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return this.#ending
  }
}
