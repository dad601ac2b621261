/** A number of requests in a unit of time: `100/minute`. */
export interface Rate {
  readonly count: number
  readonly tokensPerMs: number
}

export const MIN_PER_SECOND = 1e-9
const UNIT_MS = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

export const RATE = /^(\d+(?:\.\d+)?)\/(second|minute|hour|day)$/

/** Undefined for a text that is not a rate. */
export function parseRate(text: string): Rate | undefined {
  const [, count, unit] = RATE.exec(text) ?? []
  const tokensPerMs = Number(count) / UNIT_MS[unit as keyof typeof UNIT_MS]
  return tokensPerMs * 1000 >= MIN_PER_SECOND && tokensPerMs * 1000 <= MAX_AMOUNT ? { count: Number(count), tokensPerMs } : undefined
}

/** What was expected of a rate, to complete the sentence "expected …"; undefined where it is one. */
export function rateProblem(value: unknown): string | undefined {
  if (typeof value !== 'string') return `${RATE_FORM}100/minute`
  if (parseRate(value) !== undefined) return undefined
  if (RATE.test(value)) return `a rate from ${MIN_PER_SECOND} to ${MAX_AMOUNT} per second`
  return `${RATE_FORM}${meantRate(value) ?? '100/minute'}`
}

const RATE_FORM = 'a rate per second, minute, hour or day, such as '

/** The rate that was meant by `100/min`, `100 r/s`, `100 per hour` or `100/minutes`. */
function meantRate(text: string): string | undefined {
  if (text.length > 64) return undefined
  const [, count, unit] = /^(\d+(?:\.\d+)?) ?[a-z]{0,10} ?(?:\/|\bper\b) ?([smhd][a-z]{0,9})$/.exec(text.trim().toLowerCase()) ?? []
  const name = unit && Object.keys(UNIT_MS).find((known) => known.startsWith(unit) || `${known}s` === unit || SHORT[unit] === known)
  return name && `${count}/${name}`
}

const SHORT: Readonly<Record<string, string>> = { secs: 'second', mins: 'minute', hr: 'hour', hrs: 'hour' }

/**
 * The rate as a bucket uses it: after a whole unit of time, or the time of one token, that many whole tokens are there. Rounded to the
 * nearest number, one an hour would be a little less: after an hour there would be 0.9999999999999999 tokens, and the request rejected.
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
