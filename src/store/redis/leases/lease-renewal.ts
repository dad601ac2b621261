import { Answers } from '../../answers.ts'
import { Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../embedded-store.ts'
import { type Grant, grantOf, type QuestionCall } from '../question-call.ts'
import type { SharedCounters } from '../shared-counters.ts'
import type { UncoveredRow } from './remote-request.ts'

/** What Redis has granted without a decision, and has left. */
export interface RenewedLease {
  readonly key: string
  readonly grant: Grant
  readonly level: number
  /** What was asked, and of which charges: the row alone. */
  readonly calls: readonly QuestionCall[]
  readonly charges: Charges
}

/**
 * Asks for a lease alone, in the background of decisions. Done when `onLease` has heard of it, in the very turn of the answer, for a decision
 * whose answer comes with it must find it; or when it is known that there is none. Never rejects because of Redis.
 */
export async function leaseAlone(
  { row, counter, ask }: UncoveredRow,
  { values, valuesFrom }: Charges,
  shared: SharedCounters,
  local: EmbeddedStore,
  sentMs: number,
  onLease: (lease: RenewedLease) => void,
): Promise<void> {
  // The charges at hand serve another decision by the time that Redis answers.
  const charges = new Charges()
  for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) charges.addValue(values[i]!)
  charges.add(counter, 0)
  const answers = new Answers()
  const resetsMs = new Float64Array(1)
  local.checkWithResets(charges, answers, resetsMs, sentMs, 0)
  const own = { levels: answers.levels, resetsMs }
  const calls = shared.callsFor('take', { charges, own, rows: [0], leases: [ask], nowMs: sentMs, wallMs: 0 })
  if (calls === undefined) return
  try {
    await shared.ask(calls, charges, answers)
  } catch {
    return // counted where it happened
  }
  onLease({ key: shared.keyOf(charges, 0), grant: grantOf(calls, 0), level: answers.levels[0]!, calls, charges })
}
