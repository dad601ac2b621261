/**
 * A bucket is a level and the moment at which it was true. Everything here is arithmetic on those two numbers: the
 * caller owns the clock and the place where they are kept.
 */

/** The wait for a cost that a limit can never cover, however long one waits. */
export const NEVER = Number.POSITIVE_INFINITY

/** The level at `nowMs`. A clock that stepped back refills nothing, and takes nothing. */
export function refill(level: number, atMs: number, tokensPerMs: number, burst: number, nowMs: number): number {
  const elapsedMs = nowMs - atMs
  const refilled = elapsedMs > 0 ? level + elapsedMs * tokensPerMs : level
  return Math.min(refilled, burst)
}

/** How long until `cost` can be taken: 0 = now, NEVER = it is larger than the bucket. */
export function waitMs(level: number, cost: number, tokensPerMs: number, burst: number): number {
  // Below zero there is a debt, and still nothing stands against taking nothing.
  if (level >= cost || cost === 0) return 0
  if (cost > burst) return NEVER
  const wait = (cost - level) / tokensPerMs
  // The division may round down, and a caller that waits just that long would be refused once more.
  return level + wait * tokensPerMs >= cost ? wait : wait * (1 + 4 * Number.EPSILON)
}

/** How long until the bucket is full again. */
export function untilFullMs(level: number, tokensPerMs: number, burst: number): number {
  return level >= burst ? 0 : (burst - level) / tokensPerMs
}
