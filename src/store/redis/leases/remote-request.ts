import type { FleetCounter } from '../fleet-counter.ts'
import type { BlockLocator } from './key-leases.ts'

/** The request to Redis for a decision that leases do not cover. */
export interface RemoteRequest {
  readonly takes: boolean
  readonly sentMs: number
  readonly rows: readonly number[]
  /** Tokens to lease with each of `rows`. */
  readonly leases: readonly number[]
  /** Tokens that are leased here, for each of `rows` that takes nothing; 0 for the others. */
  readonly lefts: readonly number[]
  readonly uncovered: readonly UncoveredRow[]
  /** Rows that leases cover. If `takes` is true, their tokens have been taken. */
  readonly held: readonly HeldRow[]
}

/** A row for which a lease is wanted: no lease covers it, or the one that does is running out. */
export interface UncoveredRow {
  readonly row: number
  readonly set: number
  readonly low: number
  readonly high: number
  readonly counter: FleetCounter
  /** Tokens that the key's recent use calls for. */
  readonly want: number
  /** Tokens to lease. Unless this is 0, the key has a note that a lease was asked for. */
  readonly ask: number
}

/** A row whose token was taken from this block. */
export interface HeldRow extends BlockLocator {
  readonly row: number
  readonly level: number
}
