import type { Calendar } from '../../limiter/calendar.ts'

/** Three consecutive windows as the script reads them: number and start of each, then the end of the last. */
export type WindowNumbers = readonly [number, number, number, number, number, number, number]

interface Around {
  readonly startMs: number
  readonly endMs: number
  readonly numbers: WindowNumbers
}

/** The current windows of each calendar: outside UTC, finding them takes three searches. */
const CACHE = new WeakMap<Calendar, Around>()

/** The window at that time, the one before it and the one after it. */
export function windowsAround(calendar: Calendar, wallMs: number): WindowNumbers {
  const known = CACHE.get(calendar)
  if (known !== undefined && wallMs >= known.startMs && wallMs < known.endMs) return known.numbers
  const { number, startMs, endMs } = calendar.windowAt(wallMs)
  const previous = calendar.windowAt(startMs - 1)
  const following = calendar.windowAt(endMs)
  const numbers = [previous.number, previous.startMs, number, startMs, following.number, endMs, following.endMs] as const
  CACHE.set(calendar, { startMs, endMs, numbers })
  return numbers
}
