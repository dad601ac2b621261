import type { Override, TimedOverride } from './override.ts'
import type { EndedEntry, OverrideEntry } from './override-entry.ts'

/**
 * Where the entries of an override map are kept: in the state file of an instance, or in Redis for a fleet. It merges into the map what was
 * kept from before and what others put there.
 */
export interface OverrideStorage {
  /** Resolves when the map has what is kept, or when that cannot be known now. */
  start(): Promise<void>
  /**
   * Puts an entry in the place of the override that must be there now, and merges it into the map. It gives the entry its moments.
   * `expected`: the id of the override that is neither over nor ended; undefined: there must be none. Resolves when the entry is kept, if it
   * can be. Throws an ApiError where nothing was changed.
   */
  put(entry: NewEntry, expected: string | undefined): Promise<PutResult>
  /** Its times on the monotonic clock of this process. */
  timed(override: Override): TimedOverride
  /** Unix time by the clock that the times of entries are on. */
  wallMs(): number
  /** Whether it is kept over a restart. */
  isDurable(override: Override): boolean
  close(): Promise<void>
}

/** An entry before the storage gave it its moments. */
export type NewEntry =
  | { readonly kind: 'set'; readonly override: Omit<Override, 'sinceMs'> }
  | { readonly kind: 'ended'; readonly end: Omit<EndedEntry, 'kind' | 'momentMs' | 'forgetMs'> }

/** `exists`: nothing was changed, because another override is there (its id), or none. */
export type PutResult =
  | { readonly kind: 'put'; readonly entry: OverrideEntry }
  | { readonly kind: 'exists'; readonly id: string | undefined }
