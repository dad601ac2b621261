import type { KnownChanges } from '../../store/redis/override-moments.ts'
import type { ToldReset } from '../../store/redis/told-resets.ts'

/** What workers are told of the fleet. Overrides come in a message of their own, before it. */
export interface FleetNews {
  /** What digests of credentials are made with; undefined: not known yet. */
  readonly digestKey: readonly [number, number] | undefined
  readonly changes: KnownChanges
  /** Those that were not told before. */
  readonly resets: readonly ToldReset[]
}
