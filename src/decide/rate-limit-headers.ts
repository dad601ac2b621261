import type { RateLimit, Rejected } from '../engine/decision.ts'
import type { HeaderList } from '../http/header-list.ts'

// RFC 9651: integers of structured fields have at most 15 digits.
const MAX_INTEGER = 999_999_999_999_999

export function pushRateLimit(headers: HeaderList, limit: RateLimit, resetS: number): void {
  const { limitText, remaining, rule } = limit
  headers.push('RateLimit-Limit', limitText, 'RateLimit-Remaining', `${remaining}`, 'RateLimit-Reset', `${resetS}`)
  headers.push('RateLimit', `${rule.policy.quotedId};r=${remaining};t=${resetS}`)
}

/** On allow: the seconds until the bucket is full again. */
export function resetSeconds(limit: RateLimit): number {
  return Math.min(Math.ceil(limit.resetMs / 1000), MAX_INTEGER)
}

export function pushReject(headers: HeaderList, decision: Rejected): void {
  const { limit, reason, canRetry } = decision
  const retryAfterS = limit === undefined ? 0 : Math.max(1, resetSeconds(limit))
  if (limit !== undefined) headers.push('Retry-After', `${retryAfterS}`)
  headers.push('X-Edge-Reason', reason)
  if (!canRetry) headers.push('x-should-retry', 'false')
  if (limit !== undefined) pushRateLimit(headers, limit, retryAfterS)
}
