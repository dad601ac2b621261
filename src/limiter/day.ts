import { NEVER } from './bucket.ts'

const DAY_MS = 86_400_000

/** Which UTC day it is, counted from 1970. */
export function utcDay(wallMs: number): number {
  return Math.floor(wallMs / DAY_MS)
}

/** How long until the next UTC midnight, in (0, 24 h]. */
export function untilMidnightMs(wallMs: number): number {
  return (utcDay(wallMs) + 1) * DAY_MS - wallMs
}

/** How long until `cost` can be taken from a day on which `used` are spent: 0 = now, NEVER = not on any day. */
export function dayWaitMs(used: number, cost: number, tokensPerDay: number, wallMs: number): number {
  if (cost === 0 || used + cost <= tokensPerDay) return 0
  return cost > tokensPerDay ? NEVER : untilMidnightMs(wallMs)
}
