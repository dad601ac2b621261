import type { FleetCounter } from '../fleet-counter.ts'

/** What a decision that leases do not cover must ask of Redis. */
export interface Errand {
  readonly takes: boolean
  readonly sentMs: number
  readonly rows: readonly number[]
  /** How many tokens to lease with each of them. */
  readonly asks: readonly number[]
  readonly dry: readonly DryRow[]
  /** Leases cover these; if it takes, their tokens are taken already. */
  readonly held: readonly HeldRow[]
}

export interface DryRow {
  readonly row: number
  readonly set: number
  readonly low: number
  readonly high: number
  readonly counter: FleetCounter
  /** How many tokens it could do with. */
  readonly want: number
  /** How many are to be leased; if any, the key is noted as asked by this errand. */
  readonly ask: number
}

export interface HeldRow {
  readonly row: number
  readonly level: number
  readonly set: number
  readonly blockLow: number
  readonly high: number
  readonly endMs: number
}
