import { backoffMs } from '../backoff.ts'

/** After a failure; doubled with each that follows, up to the usual time between polls. */
const FIRST_RETRY_MS = 1000
/** Instances that were started together must not poll together for ever. */
const JITTER = 0.1

/** How long to wait before the next poll, after so many failures in a row. `random` is from 0 to 1. */
export function pollDelayMs(intervalMs: number, failures: number, random: number): number {
  const delayMs = failures === 0 ? intervalMs : backoffMs(FIRST_RETRY_MS, intervalMs, failures)
  return delayMs * (1 + JITTER * (2 * random - 1))
}
