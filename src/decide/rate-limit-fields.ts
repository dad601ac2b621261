import type { RateLimit, Rejected } from '../engine/decision.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import { flatText } from '../memory/latin1-text.ts'
import type { PlanRule } from '../policy/plan.ts'

// RFC 9651: integers in structured fields have at most 15 digits.
const MAX_INTEGER = 999_999_999_999_999

export function pushRateLimit(headers: HeaderList, limit: RateLimit, resetS: number): void {
  const { limitText, quotaText, remaining, rule } = limit
  headers.push('RateLimit-Limit', limitText, 'RateLimit-Remaining', `${remaining}`, 'RateLimit-Reset', `${resetS}`)
  headers.push('RateLimit', `${rule.policy.quotedId};r=${remaining};t=${resetS}`)
  if (quotaText !== undefined) headers.push('RateLimit-Policy', `${rule.policy.quotedId}${quotaText}`)
}

/** Rounds `resetMs` up to whole seconds. */
export function resetSeconds(limit: RateLimit): number {
  return Math.min(Math.ceil(limit.resetMs / 1000), MAX_INTEGER)
}

/**
 * Clients are told of a longer wait rather than left to sit it out. Most SDKs of LLM APIs sleep for as long as Retry-After says, in silence, so a program
 * whose day is used up would hang until midnight. OpenAI's for Python gives up by itself after two minutes; limits by the minute wait less.
 */
const LONGEST_RETRY_S = 120

export function pushRetryAfter(headers: HeaderList, seconds: number): void {
  headers.push('Retry-After', `${seconds}`)
  if (seconds > LONGEST_RETRY_S) headers.push('x-should-retry', 'false')
}

export function pushReject(headers: HeaderList, decision: Rejected): void {
  const { limit, reason, canRetry } = decision
  const retryAfterS = limit === undefined ? 0 : Math.max(1, resetSeconds(limit))
  if (limit !== undefined) pushRetryAfter(headers, retryAfterS)
  headers.push('X-Edge-Reason', reason)
  if (!canRetry && retryAfterS <= LONGEST_RETRY_S) headers.push('x-should-retry', 'false')
  if (limit !== undefined) pushRateLimit(headers, limit, retryAfterS)
}

/** Formats the fields of an allowed request's limit for the wire. Text is built from as few pieces as possible, because fewer are faster to join. */
export class RateLimitText {
  readonly #before: string
  /** Some rules have several limits; only the one used last is cached. */
  readonly #constants = new WeakMap<PlanRule, Constant>()

  /** `before` is the beginning of every text. */
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

  #newConstant({ rule, limitText, quotaText }: RateLimit): Constant {
    const policy = quotaText === undefined ? '' : `RateLimit-Policy: ${rule.policy.quotedId}${quotaText}\r\n`
    return {
      limitText,
      untilRemaining: flatText(`${this.#before}${policy}RateLimit-Limit: ${limitText}\r\nRateLimit-Remaining: `),
      untilShort: flatText(`\r\nRateLimit: ${rule.policy.quotedId};r=`),
    }
  }
}

/** The parts that all texts for a rule and its limit share. */
interface Constant {
  readonly limitText: string
  readonly untilRemaining: string
  readonly untilShort: string
}
