import { MAX_TOKENS } from '../max-tokens.ts'

/** A number of requests in a unit of time: `100/minute`. */
export interface Rate {
  readonly count: number
  readonly tokensPerMs: number
}

export const MIN_PER_SECOND = 1e-9
export const UNIT_MS = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

export const RATE = /^(\d+(?:\.\d+)?)\/(second|minute|hour|day)$/

/** Undefined for a text that is not a rate. */
export function parseRate(text: string): Rate | undefined {
  const [, count, unit] = RATE.exec(text) ?? []
  const tokensPerMs = Number(count) / UNIT_MS[unit as keyof typeof UNIT_MS]
  return tokensPerMs * 1000 >= MIN_PER_SECOND && tokensPerMs * 1000 <= MAX_TOKENS ? { count: Number(count), tokensPerMs } : undefined
}

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
