import { setTimeout as sleep } from 'node:timers/promises'

const DAY_MS = 86_400_000
const NEAR_MS = 60_000

/** Waits for the next day, by UTC, where this one is about to end: a budget of the day in Redis would end with it in the middle of a test. */
export async function awayFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < NEAR_MS) await sleep(leftMs + 1)
}
