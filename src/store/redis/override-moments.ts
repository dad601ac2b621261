/** Half of the least time between two moments. */
const HALF_TICK_MS = 0.0005

/** Which changes of overrides an instance knows. Moments are by the clock of Redis, and rise from change to change. */
export interface KnownChanges {
  /** Of the last one. */
  readonly latestMs: number
  /** Overrides that are not in force yet, by rising moments; `fromMs` is on the monotonic clock. */
  readonly upcoming: readonly UpcomingOverride[]
}

export interface UpcomingOverride {
  readonly momentMs: number
  readonly fromMs: number
}

/**
 * Tells Redis, with each call, how much of the overrides a decision was made with. A counter that another instance has changed to a later
 * override is then left as that one wants it, see `assets/redis/counters.lua`.
 */
export class OverrideMoments {
  #known: KnownChanges = { latestMs: 0, upcoming: [] }
  #passed = 0

  use(known: KnownChanges): void {
    this.#known = known
    this.#passed = 0
  }

  /** The moment up to which all changes are in force at that time of the monotonic clock. */
  knownAt(nowMs: number): number {
    const { latestMs, upcoming } = this.#known
    while (this.#passed < upcoming.length && upcoming[this.#passed]!.fromMs <= nowMs) this.#passed++
    const next = upcoming[this.#passed]
    return next === undefined ? latestMs : next.momentMs - HALF_TICK_MS
  }
}
