import type { PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import type { CounterLocator } from '../store/counter-locator.ts'
import type { ReservedCharge } from './reservation.ts'

/** A reservation whose request is in flight. */
export interface Unsettled {
  readonly charges: readonly ReservedCharge[]
  /** A time by which all that its decision took was taken, on the monotonic clock. */
  readonly sinceMs: number
  /** Returns what a charge would be settled to if its request ended now. */
  amountNow(charge: ReservedCharge): number
}

/** What would be given back to one counter if a request in flight ended now. */
export interface UnsettledAmount {
  readonly counter: PlanCounter
  readonly locator: CounterLocator
  readonly back: number
  /** What it would be charged. */
  readonly kept: number
  /** Orders the take among resets, as in `Taken`. */
  readonly momentMs: number
}
