import type { Override, OverrideChange, OverrideSubject } from './override.ts'

/** What an operator wants, checked against the rule. */
export interface OverrideOrder {
  readonly subject: OverrideSubject
  readonly change: OverrideChange
  readonly until: Until
  readonly actor: string
  readonly reason: string
  /** The id of the override whose place it takes. */
  readonly replace: string | undefined
}

/** A moment, or so much later than now. */
export type Until = { readonly atMs: number } | { readonly inMs: number }

export interface EndOrder {
  readonly id: string
  readonly actor: string
  readonly reason: string
}

/** An override as operators see it. */
export interface ListedOverride {
  readonly override: Override
  readonly isDurable: boolean
}
