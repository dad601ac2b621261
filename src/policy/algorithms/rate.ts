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
