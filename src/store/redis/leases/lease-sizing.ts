/**
 * How much to lease, when, and how long to believe a refusal. Tokens that are leased and not used are missing elsewhere
 * in the fleet until they go back, and each lease is a round trip: half a lease's life worth of tokens is the middle.
 */

/** What was refused for want of one token waits no longer than this for more of them. */
const MAX_WAIT_FOR_MORE_MS = 125

/** The share of its life after which what is left of a lease goes back. Use as before would have ended it at half of it. */
export const KEPT_SHARE = 0.75

/**
 * Tokens to lease: what half a life would use if use goes on as of late, at most twice what was used, so that a key that is new or
 * has woken up starts small. 0 where less than one would be used.
 */
export function tokensToLease(usedTokens: number, elapsedMs: number, leaseMs: number): number {
  return Math.min(usedIn(leaseMs / 2, usedTokens, elapsedMs), Math.floor(usedTokens * 2))
}

/** Whether what is left will be used up so soon that more is to be fetched meanwhile. Slow keys fetch when they need it. */
export function isRunningOut(leftTokens: number, usedTokens: number, elapsedMs: number, leaseMs: number): boolean {
  return leftTokens < usedIn(leaseMs / 8, usedTokens, elapsedMs)
}

/**
 * For how long to believe that there is nothing to get, `level` being what there was: until there is one token, and
 * where many come back in a short while, until there are some worth a round trip. Never as long as to fill the bucket,
 * for then refill is lost; nor longer than a lease lives, for others may give back what they do not use.
 */
export function refusalMs(level: number, wantedTokens: number, tokensPerMs: number, burst: number, leaseMs: number): number {
  // Redis leases half of what is there.
  const worthwhile = Math.min(1 + wantedTokens, burst / 4, tokensPerMs * Math.min(leaseMs / 8, MAX_WAIT_FOR_MORE_MS))
  return Math.min((Math.max(worthwhile, 1) - level) / tokensPerMs, leaseMs)
}

function usedIn(spanMs: number, usedTokens: number, elapsedMs: number): number {
  return Math.floor((usedTokens * spanMs) / Math.max(elapsedMs, 1))
}
