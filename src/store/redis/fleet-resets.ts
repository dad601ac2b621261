import type { Clock } from '../../clock.ts'
import type { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import { type AnnouncedReset, AnnouncedResets, forgetMsOf } from './announced-resets.ts'
import { applyResets } from './apply-resets.ts'
import type { FleetCounter } from './fleet-counter.ts'
import type { Leases } from './leases/leases.ts'
import { LinkError } from './link/link-error.ts'
import type { QuestionCall } from './question-call.ts'
import type { SharedCounters } from './shared-counters.ts'

/** Announces resets to all instances. Rejects with a LinkError. */
export type AnnounceResets = (resets: readonly AnnouncedReset[]) => Promise<void>

export interface FleetResetsParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  readonly leases?: Leases | undefined
  /** Undefined: this is the only instance. */
  readonly announce?: AnnounceResets | undefined
  readonly clock: Clock
}

/** Resets, as an instance makes them and learns of them: by a reply of Redis, or announced by the instance that made them. */
export class FleetResets {
  readonly #parts: FleetResetsParts
  readonly #announced = new AnnouncedResets()

  constructor(parts: FleetResetsParts) {
    this.#parts = parts
  }

  /** Other instances made these: own counts, leases and refusals from before them are dropped. */
  note(resets: readonly AnnouncedReset[]): void {
    const { shared, clock } = this.#parts
    this.#announced.add(resets, clock.nowMs(), shared.redisWallMs(clock.wallMs()))
  }

  /** Whether leases or refusals may be there from before one that was announced. */
  mayHoldLeases(nowMs: number): boolean {
    return !this.#announced.isEmpty && nowMs < this.#announced.lastAnnouncedMs + this.#parts.leases!.lifeMs
  }

  /** Applies the resets of these counters that were announced, before they are read. */
  meet(charges: Charges, nowMs: number, wallMs: number): void {
    if (this.#announced.isEmpty) return
    const { shared, local, leases } = this.#parts
    const redisWallMs = shared.redisWallMs(wallMs)
    for (let row = 0; row < charges.length; row++) {
      const reset = this.#announced.find(charges.counters[row] as FleetCounter, () => shared.digestOf(charges, row), redisWallMs)
      if (reset !== undefined && local.resetRow(charges, row, reset.momentMs, nowMs, redisWallMs)) leases?.forget(charges, row)
    }
  }

  /** Applies those that replies tell of. */
  apply(calls: readonly QuestionCall[], charges: Charges): void {
    const { local, leases, clock } = this.#parts
    applyResets(calls, charges, local, clock.nowMs(), (all, row) => leases?.forget(all, row))
  }

  /** Those that these calls have made. */
  madeBy(calls: readonly QuestionCall[], charges: Charges): AnnouncedReset[] {
    return calls.flatMap(({ rows, reply }) => {
      if (reply === undefined || reply.fits === 'other_window') return []
      return rows.map(({ row, limit }, i) => {
        const { identityDigest: identity } = charges.counters[row] as FleetCounter
        const momentMs = reply.resetsMs[i]!
        return { key: this.#parts.shared.digestOf(charges, row), identity, momentMs, forgetMs: forgetMsOf(limit, momentMs) }
      })
    })
  }

  async announce(resets: readonly AnnouncedReset[]): Promise<void> {
    try {
      await this.#parts.announce?.(resets)
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      const what = `the counters are reset, but other instances may not have been told (${error.message})`
      throw new LinkError('unknown', error.code, what)
    }
  }
}
