import type { TimedOverride } from './override.ts'

/** What changes in a set of overrides. */
export interface OverridesChange {
  /** New ones, and those whose times have changed. */
  readonly put: readonly TimedOverride[]
  /** The ids of those that are no longer in it. */
  readonly gone: readonly string[]
}
