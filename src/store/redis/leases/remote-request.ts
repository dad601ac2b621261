import type { FleetCounter } from '../fleet-counter.ts'
import type { BlockPlace } from './lease-blocks.ts'

/** What a decision that leases do not cover must ask of Redis. */
export interface RemoteRequest {
  readonly takes: boolean
  readonly sentMs: number
  readonly rows: readonly number[]
  /** How many tokens to lease with each of them. */
  readonly leases: readonly number[]
  readonly uncovered: readonly UncoveredRow[]
  /** Leases cover these; if it takes, their tokens are taken already. */
  readonly held: readonly HeldRow[]
}

/** A row that a lease could cover, and none does. */
export interface UncoveredRow {
  readonly row: number
  readonly set: number
  readonly low: number
  readonly high: number
  readonly counter: FleetCounter
  /** How many tokens it could do with. */
  readonly want: number
  /** How many are to be leased; if any, the key is noted as asked by this request. */
  readonly ask: number
}

/** A row whose token came from this block. */
export interface HeldRow extends BlockPlace {
  readonly row: number
  readonly level: number
}
