/*
 * How much to lease, when, and how long a refusal holds. Leased tokens that are not used are missing elsewhere in the fleet until
 * they go back, and each lease is a round trip: the tokens of half a lease's life are the compromise.
 */

/** A refusal waits no longer than this for more than one token. */
const MAX_WAIT_FOR_MORE_MS = 125

/** The share of its life after which the rest of a lease goes back. At the expected rate it is used up at one half. */
export const KEPT_SHARE = 0.75

/**
 * Tokens to lease: what half a lease's life uses at the recent rate, and at most twice what was used, so that a key that is new or
 * was idle starts small. 0 where less than one would be used.
 */
export function tokensToLease(usedTokens: number, elapsedMs: number, leaseMs: number): number {
  return Math.min(usedIn(leaseMs / 2, usedTokens, elapsedMs), Math.floor(usedTokens * 2))
}

/** Whether the rest will be used up so soon that the next lease is fetched now. Slow keys fetch when they need it. */
export function isRunningOut(leftTokens: number, usedTokens: number, elapsedMs: number, leaseMs: number): boolean {
  return leftTokens < usedIn(leaseMs / 8, usedTokens, elapsedMs)
}

/**
 * How long a refusal holds, `level` being what was left: until there is one token, or, where many come back within a short time,
 * until there are enough to be worth a round trip. Never until the bucket is full, because refill would be lost; nor longer than a
 * lease lives, because others may give back what they do not use.
 */
export function refusalMs(level: number, wantedTokens: number, tokensPerMs: number, burst: number, leaseMs: number): number {
  // Redis leases half of what is left.
  const worthwhile = Math.min(1 + wantedTokens, burst / 4, tokensPerMs * Math.min(leaseMs / 8, MAX_WAIT_FOR_MORE_MS))
  return Math.min((Math.max(worthwhile, 1) - level) / tokensPerMs, leaseMs)
}

function usedIn(spanMs: number, usedTokens: number, elapsedMs: number): number {
  return Math.floor((usedTokens * spanMs) / Math.max(elapsedMs, 1))
}
