import { ALGORITHMS } from '../limiter/algorithms/algorithms.ts'
import type { CounterRecord } from '../limiter/record.ts'

/*
 * Records of the table that are not limits: leased tokens, notes on a key's leases, and resets. A number always stands for the same
 * kind, like those of limits (`limiter/limit.ts`). A record has room for kinds up to 135.
 */
export const LEASE_BLOCK = 128
export const LEASE_NOTE = 129
export const LEASE_USE = 130
export const RESET = 131

/**
 * How long a record still means something, judged without its rule: 0 = it can be forgotten without loss. Records that are not counters are
 * worth more than any that are: a lost lease takes tokens from the fleet, and a lost reset cannot be recovered.
 */
export function worthMs(record: CounterRecord, nowMs: number, wallMs: number): number {
  const algorithm = ALGORITHMS[record.kind]
  if (algorithm !== undefined) return algorithm.worthMs(record, nowMs, wallMs)
  if (record.kind === RESET) return wallMs >= record.at ? 0 : Number.POSITIVE_INFINITY
  // Leased tokens expire at `at`. Notes and use can be lost at any time.
  return record.kind !== LEASE_BLOCK || nowMs >= record.at || record.level <= 0 ? 0 : Number.MAX_VALUE
}
