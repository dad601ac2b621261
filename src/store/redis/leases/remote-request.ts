import type { FleetCounter } from '../fleet-counter.ts'
import type { BlockPlace } from './key-leases.ts'

/** What a decision that leases do not cover asks of Redis. */
export interface RemoteRequest {
  readonly takes: boolean
  readonly sentMs: number
  readonly rows: readonly number[]
  /** How many tokens to lease with each of them. */
  readonly leases: readonly number[]
  /** Tokens that are leased here, for each of them that takes nothing. */
  readonly lefts: readonly number[]
  readonly uncovered: readonly UncoveredRow[]
  /** Rows that leases cover. If it takes, their tokens are taken already. */
  readonly held: readonly HeldRow[]
}

/** A row that a lease could cover, but none does. */
export interface UncoveredRow {
  readonly row: number
  readonly set: number
  readonly low: number
  readonly high: number
  readonly counter: FleetCounter
  /** Tokens that its recent use calls for. */
  readonly want: number
  /** Tokens to lease. Unless 0, the key has a note that a lease was asked for. */
  readonly ask: number
}

/** A row whose token came from this block. */
export interface HeldRow extends BlockPlace {
  readonly row: number
  readonly level: number
}
