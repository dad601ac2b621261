import type { TimedOverride } from './override.ts'

/** What changes in a set of overrides. */
export interface OverridesChange {
  /** New ones, and those whose times have changed. */
  readonly put: readonly TimedOverride[]
  /** The ids of those that are no longer in it. */
  readonly gone: readonly string[]
}

/** `overrides`: by id. */
export function applyChange(overrides: Map<string, TimedOverride>, { put, gone }: OverridesChange): void {
  for (const id of gone) overrides.delete(id)
  for (const timed of put) overrides.set(timed.override.id, timed)
}
