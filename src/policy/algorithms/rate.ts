/** A number of requests per unit of time, such as `100/minute`. */
export interface Rate {
  readonly count: number
  readonly tokensPerMs: number
}

export const MIN_PER_SECOND = 1e-9
const UNIT_MS = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

export const RATE = /^(\d+(?:\.\d+)?)\/(second|minute|hour|day)$/

/** Returns undefined if the text is not a rate, or if the rate is out of range. */
export function parseRate(text: string): Rate | undefined {
  const [, count, unit] = RATE.exec(text) ?? []
  const tokensPerMs = Number(count) / UNIT_MS[unit as keyof typeof UNIT_MS]
  return tokensPerMs * 1000 >= MIN_PER_SECOND && tokensPerMs * 1000 <= MAX_AMOUNT ? { count: Number(count), tokensPerMs } : undefined
}

/** Returns a text that completes the sentence "expected …", or undefined if the value is a valid rate. */
export function rateProblem(value: unknown): string | undefined {
  if (typeof value !== 'string') return `${RATE_FORM}100/minute`
  if (parseRate(value) !== undefined) return undefined
  if (Number.parseFloat(value) === 0 && RATE.test(value)) return 'a rate above 0 (a block lets nothing pass)'
  if (RATE.test(value)) return `a rate from ${MIN_PER_SECOND} to ${MAX_AMOUNT} per second`
  return `${RATE_FORM}${meantRate(value) ?? '100/minute'}`
}

const RATE_FORM = 'a rate per second, minute, hour or day, such as '

/** Suggests the rate that was meant by `100/min`, `100 r/s`, `100 per hour` or `100/minutes`. */
function meantRate(text: string): string | undefined {
  if (text.length > 64) return undefined
  const [, count, unit] = /^(\d+(?:\.\d+)?) ?[a-z]{0,10} ?(?:\/|\bper\b) ?([smhd][a-z]{0,9})$/.exec(text.trim().toLowerCase()) ?? []
  const name = unit && Object.keys(UNIT_MS).find((known) => known.startsWith(unit) || `${known}s` === unit || SHORT[unit] === known)
  return name && `${count}/${name}`
}

const SHORT: Readonly<Record<string, string>> = { secs: 'second', mins: 'minute', hr: 'hour', hrs: 'hour' }

/**
 * Rounds a rate so that a bucket gains whole tokens in a whole unit of time, and in the time of one token. The nearest number to one an hour
 * is slightly too low: after an hour, the bucket would hold 0.9999999999999999 tokens and reject the request.
 */
export function refillRate(tokensPerMs: number): number {
  for (const ms of [Math.round(1 / tokensPerMs), ...Object.values(UNIT_MS)]) {
    const tokens = Math.round(ms * tokensPerMs)
    const missing = tokens - ms * tokensPerMs
    if (missing > 0 && missing < tokens * 4 * Number.EPSILON) return tokensPerMs * (1 + Number.EPSILON)
  }
  return tokensPerMs
}

/** RFC 9651: structured fields, and so the RateLimit header, carry integers of at most 15 digits. */
export const MAX_AMOUNT = 999_999_999_999_999
