import { SLICES } from '../../limiter/algorithms/in-flight.ts'
import { IN_FLIGHT } from '../../limiter/limit.ts'
import type { ConcurrencyConfig } from '../schema/concurrency.ts'
import type { PartLimit } from './compiled-rule.ts'

/** The index of a slice depends on its length, so a rule with another `hold_seconds` gets counters of its own. */
export function concurrencyLimits({ max_in_flight, hold_seconds }: ConcurrencyConfig): PartLimit[] {
  const limit = { kind: IN_FLIGHT, max: max_in_flight, sliceMs: (hold_seconds * 1000) / SLICES } as const
  return [{ part: 'in_flight', limit, reason: 'concurrency_exceeded', identity: [String(hold_seconds)] }]
}
