import { STATUS_CODES } from 'node:http'
import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import { resetSeconds } from '../../decide/rate-limit-headers.ts'
import type { RateLimit } from '../../engine/decision.ts'
import type { PlanRule } from '../../policy/plan.ts'

/** Writes answers down byte for byte as `node:http` does on a connection that it keeps. */
export class AnswerText {
  readonly #keepAlive: string
  readonly #statusLines = new Map<number, string>()
  /** Some rules have several limits; the last one is kept. */
  readonly #constants = new WeakMap<PlanRule, Constant>()
  /** The fields that all answers of this second end with. */
  #ending: string | undefined

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`
  }

  of(answer: DecisionAnswer): string {
    const { status, decision, isDebug, reservation } = answer
    const ending = this.#ending ?? this.#newEnding()
    const isUsual = !isDebug && reservation === undefined
    if (isUsual && decision?.action === 'allow' && decision.limit !== undefined) return this.#allowed(decision.limit, ending)
    const headers = answerHeaders(answer)
    let text = this.#statusLine(status)
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
    return text + ending
  }

  /** What most answers are. The fewer pieces a text is made of, the sooner it is put together. */
  #allowed(limit: RateLimit, ending: string): string {
    let constant = this.#constants.get(limit.rule)
    if (constant?.limitText !== limit.limitText) {
      constant = newConstant(limit)
      this.#constants.set(limit.rule, constant)
    }
    const remaining = `${limit.remaining}`
    const resetS = `${resetSeconds(limit)}`
    return `${constant.untilRemaining}${remaining}${`\r\nRateLimit-Reset: ${resetS}`}${constant.untilShort}${remaining}${`;t=${resetS}\r\n`}${ending}`
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
    this.#ending = flat(`Content-Length: 0\r\nDate: ${now.toUTCString()}\r\n${this.#keepAlive}`)
    // A timer a second costs less than a look at the clock per answer.
    setTimeout(() => {
      this.#ending = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return this.#ending
  }
}

/** What all answers that name a rule and its limit have in common. */
interface Constant {
  readonly limitText: string
  readonly untilRemaining: string
  readonly untilShort: string
}

function newConstant({ rule, limitText }: RateLimit): Constant {
  return {
    limitText,
    untilRemaining: flat(`HTTP/1.1 200 OK\r\nRateLimit-Limit: ${limitText}\r\nRateLimit-Remaining: `),
    untilShort: flat(`\r\nRateLimit: ${rule.policy.quotedId};r=`),
  }
}

/** A text that was put together, in one piece. */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
