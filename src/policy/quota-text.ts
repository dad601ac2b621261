import { periodSeconds } from '../limiter/calendar.ts'
import { BUCKET, type Limit, WINDOW } from '../limiter/limit.ts'

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
  return limit.kind === BUCKET ? Math.ceil(limit.burst / limit.tokensPerMs / 1000) : undefined
}
