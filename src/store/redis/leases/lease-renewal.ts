import { ChargeResults } from '../../charge-results.ts'
import { Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../embedded-store.ts'
import { type Grant, grantOf, type QueryCall } from '../query-call.ts'
import type { SharedCounters } from '../shared-counters.ts'
import type { UncoveredRow } from './remote-request.ts'

/** A lease that Redis granted without a decision. */
export interface RenewedLease {
  readonly key: string
  readonly grant: Grant
  readonly level: number
  /** What was asked, for charges of this row alone. */
  readonly calls: readonly QueryCall[]
  readonly charges: Charges
}

/**
 * Asks for a lease without a decision, in the background. Calls `onLease` in the same turn as the reply, because a decision whose reply comes
 * with it must find the lease. Resolves after that, or when there is none. Never rejects because of Redis.
 */
export async function leaseAlone(
  { row, counter, ask }: UncoveredRow,
  { values, valuesFrom }: Charges,
  shared: SharedCounters,
  local: EmbeddedStore,
  sentMs: number,
  wallMs: number,
  onLease: (lease: RenewedLease) => void,
): Promise<void> {
  // The caller's charges are used for another decision before Redis replies.
  const charges = new Charges()
  for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) charges.addValue(values[i]!)
  charges.add(counter, 0)
  const results = new ChargeResults()
  const resetsMs = new Float64Array(1)
  local.checkWithResets(charges, results, resetsMs, sentMs, 0)
  const own = { levels: results.levels, resetsMs }
  const calls = shared.callsFor('take', { charges, own, rows: [0], leases: [ask], nowMs: sentMs, wallMs })
  if (calls === undefined) return
  try {
    await shared.ask(calls, charges, results)
  } catch {
    return // counted where it happened
  }
  onLease({ key: shared.keyOf(charges, 0), grant: grantOf(calls, 0), level: results.levels[0]!, calls, charges })
}
