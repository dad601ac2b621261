import type { RateLimit } from '../engine/decision.ts'
import { flatText } from '../flat-text.ts'
import type { PlanRule } from '../policy/plan.ts'
import { resetSeconds } from './rate-limit-headers.ts'

/** Writes the fields of an allowed request's limit down as the wire carries them. The fewer pieces a text is made of, the sooner it is put together. */
export class RateLimitText {
  readonly #before: string
  /** Some rules have several limits; the last one is kept. */
  readonly #constants = new WeakMap<PlanRule, Constant>()

  /** `before`: what every text begins with. */
  constructor(before: string) {
    this.#before = before
  }

  of(limit: RateLimit): string {
    let constant = this.#constants.get(limit.rule)
    if (constant?.limitText !== limit.limitText) {
      constant = this.#newConstant(limit)
      this.#constants.set(limit.rule, constant)
    }
    const remaining = `${limit.remaining}`
    const resetS = `${resetSeconds(limit)}`
    return `${constant.untilRemaining}${remaining}${`\r\nRateLimit-Reset: ${resetS}`}${constant.untilShort}${remaining}${`;t=${resetS}\r\n`}`
  }

  #newConstant({ rule, limitText }: RateLimit): Constant {
    return {
      limitText,
      untilRemaining: flatText(`${this.#before}RateLimit-Limit: ${limitText}\r\nRateLimit-Remaining: `),
      untilShort: flatText(`\r\nRateLimit: ${rule.policy.quotedId};r=`),
    }
  }
}

/** What all texts that name a rule and its limit have in common. */
interface Constant {
  readonly limitText: string
  readonly untilRemaining: string
  readonly untilShort: string
}
