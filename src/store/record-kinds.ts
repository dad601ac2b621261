import { ALGORITHMS } from '../limiter/algorithms/algorithms.ts'
import type { CounterRecord } from '../limiter/record.ts'

/*
 * Records of the table that are not limits: leased tokens, notes on a key's leases, and resets. A number always stands for the same
 * kind, like those of limits (`limiter/limit.ts`).
 */
export const LEASE_BLOCK = 128
export const LEASE_NOTE = 129
export const LEASE_USE = 130
export const RESET = 131

/** Above every counter and every lease: a lost reset cannot be recovered. */
const RESET_SHARE = 3

/**
 * How much would be lost with a record, judged without its rule: 0 = nothing, up to 1 for counters, above 1 for records that are evicted
 * after all of them.
 */
export function spentShare(record: CounterRecord, nowMs: number, wallMs: number): number {
  const algorithm = ALGORITHMS[record.kind]
  if (algorithm !== undefined) return algorithm.spentShare(record, nowMs, wallMs)
  if (record.kind === RESET) return wallMs >= record.at ? 0 : RESET_SHARE
  // Leased tokens expire at `at`. Notes and use can be lost at any time.
  return record.kind !== LEASE_BLOCK || nowMs >= record.at || record.level <= 0 ? 0 : 1 + record.level / record.size
}
