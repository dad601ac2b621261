import { periodSeconds } from '../limiter/calendar.ts'
import { BUCKET, type BucketLimit, type Limit, WINDOW } from '../limiter/limit.ts'
import { MAX_AMOUNT } from './algorithms/rate.ts'

/**
 * Returns the parameters of a limit for the RateLimit-Policy field, such as `;q=100;w=60`. A limit on requests in flight has no window, and months differ in
 * their length, so those have no `w`.
 */
export function quotaText(limit: Limit, limitText: string): string {
  const seconds = windowSeconds(limit)
  return seconds === undefined ? `;q=${limitText}` : `;q=${limitText};w=${seconds}`
}

function windowSeconds(limit: Limit): number | undefined {
  if (limit.kind === WINDOW) return periodSeconds(limit.calendar.period)
  return limit.kind === BUCKET ? refillSeconds(limit) : undefined
}

/** Returns in how many seconds an empty bucket is full, rounded up; undefined if the field cannot carry so large a number. */
function refillSeconds({ burst, tokensPerMs }: BucketLimit): number | undefined {
  const seconds = burst / tokensPerMs / 1000
  const nearest = Math.round(seconds)
  // The quotient may miss a whole number by the rounding of the rate alone: 11/second is a bucket of one second, not of two.
  const isWhole = Math.abs(seconds - nearest) <= nearest * 4 * Number.EPSILON
  const whole = isWhole ? nearest : Math.ceil(seconds)
  return whole <= MAX_AMOUNT ? whole : undefined
}
