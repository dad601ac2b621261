import { ALGORITHMS } from '../limiter/algorithms/algorithms.ts'
import type { CounterRecord } from '../limiter/record.ts'

/*
 * Records of the table that are no limits: tokens leased, what is known of a key's leases, and resets. The numbers stand for the
 * same kind for good, as those of limits do (`limiter/limit.ts`).
 */
export const LEASE_BLOCK = 128
export const LEASE_NOTE = 129
export const LEASE_USE = 130
export const RESET = 131

/** Above every counter and every lease: what is forgotten of a reset cannot be found out again. */
const RESET_SHARE = 3

/**
 * How much would be lost if a record were forgotten, judged without its rule: 0 = nothing, up to 1 for counters, above 1 for what goes
 * after all of them.
 */
export function spentShare(record: CounterRecord, nowMs: number, wallMs: number): number {
  const algorithm = ALGORITHMS[record.kind]
  if (algorithm !== undefined) return algorithm.spentShare(record, nowMs, wallMs)
  if (record.kind === RESET) return wallMs >= record.at ? 0 : RESET_SHARE
  // Tokens leased until `at`: what is not used by then is nobody's. Notes and use can be forgotten at any time.
  return record.kind !== LEASE_BLOCK || nowMs >= record.at || record.level <= 0 ? 0 : 1 + record.level / record.size
}
