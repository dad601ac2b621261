import type { AnnouncedReset } from '../../store/redis/announced-resets.ts'
import type { KnownChanges } from '../../store/redis/override-moments.ts'

/** What is announced to workers about the fleet. Overrides come in a message of their own, before it. */
export interface FleetNews {
  /** What digests of credentials are made with; undefined: not known yet. */
  readonly digestKey: readonly [number, number] | undefined
  readonly changes: KnownChanges
  /** Those that were not announced before. */
  readonly resets: readonly AnnouncedReset[]
}
