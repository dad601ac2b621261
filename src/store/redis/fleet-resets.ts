import { DAY_MS } from '../../limiter/calendar.ts'
import { type Limit, WINDOW } from '../../limiter/limit.ts'
import type { Clock } from '../../time/clock.ts'
import type { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../table/embedded-store.ts'
import { controlEntryText, readControlEntry } from './control-script.ts'
import type { FleetCounter } from './fleet-counter.ts'
import type { Leases } from './leases/leases.ts'
import { LinkError } from './link/call.ts'
import { applyResets, type QueryCall } from './script-calls.ts'
import type { SharedCounters } from './shared-counters.ts'

/** Announces resets to all instances. Rejects with a LinkError. */
export type AnnounceResets = (resets: readonly AnnouncedReset[]) => Promise<void>

export interface FleetResetsParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  readonly leases?: Leases | undefined
  /** Undefined if this is the only instance. */
  readonly announce?: AnnounceResets | undefined
  readonly clock: Clock
}

/** Applies and announces resets. An instance learns of a reset by a reply of Redis, or because the instance that made it announces it. */
export class FleetResets {
  readonly #parts: FleetResetsParts
  readonly #announced = new AnnouncedResets()

  constructor(parts: FleetResetsParts) {
    this.#parts = parts
  }

  /**
   * Notes resets that other instances made: own counts, leases and refusals from before them are dropped when their counter is next used.
   */
  note(resets: readonly AnnouncedReset[]): void {
    const { shared, clock } = this.#parts
    this.#announced.add(resets, clock.nowMs(), shared.redisWallMs(clock.wallMs()))
  }

  /** Returns whether there may be leases or refusals from before an announced reset. */
  mayHoldLeases(nowMs: number): boolean {
    return !this.#announced.isEmpty && nowMs < this.#announced.lastAnnouncedMs + this.#parts.leases!.lifeMs
  }

  /** Applies announced resets of these counters, before the counters are read. */
  meet(charges: Charges, nowMs: number, wallMs: number): void {
    if (this.#announced.isEmpty) return
    const { shared, local, leases } = this.#parts
    const redisWallMs = shared.redisWallMs(wallMs)
    for (let row = 0; row < charges.length; row++) {
      const reset = this.#announced.find(charges.counters[row] as FleetCounter, () => shared.digestOf(charges, row), redisWallMs)
      if (reset !== undefined && local.resetRow(charges, row, reset.momentMs, nowMs, redisWallMs)) leases?.forget(charges, row)
    }
  }

  /** Applies resets that replies report. */
  apply(calls: readonly QueryCall[], charges: Charges): void {
    const { local, leases, clock } = this.#parts
    applyResets(calls, charges, local, clock.nowMs(), (all, row) => leases?.forget(all, row))
  }

  /** Returns the resets that these calls have made. */
  madeBy(calls: readonly QueryCall[], charges: Charges): AnnouncedReset[] {
    return calls.flatMap(({ rows, reply }) => {
      if (reply === undefined || reply.fits === 'other_window') return []
      return rows.map(({ row, limit }, i) => {
        const { identityDigest: identity } = charges.counters[row] as FleetCounter
        const momentMs = reply.rows[i]!.resetMs
        return { key: this.#parts.shared.digestOf(charges, row), identity, momentMs, forgetMs: forgetMsOf(limit, momentMs) }
      })
    })
  }

  async announce(resets: readonly AnnouncedReset[]): Promise<void> {
    try {
      await this.#parts.announce?.(resets)
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      const what = `the counters are reset, but other instances may not know it yet (${error.message})`
      throw new LinkError('unknown', error.code, what)
    }
  }
}

/**
 * A reset that some instance made, as it is announced to all. It has no values: an instance that decides on the counter finds it by its
 * key.
 */
export interface AnnouncedReset {
  /** Digest that names the counter in Redis, without the prefix. */
  readonly key: string
  /** Digest of the counter's identity, the same for all subjects: see `identityDigest`. */
  readonly identity: string
  /** Moment of the reset, by the clock of Redis. */
  readonly momentMs: number
  /** Time until which something from before the reset may still arrive. */
  readonly forgetMs: number
}

/** Returns until when a reset stays announced. */
function forgetMsOf(limit: Limit, momentMs: number): number {
  const windowEndMs = limit.kind === WINDOW ? limit.calendar.windowAt(momentMs).endMs : 0
  return Math.max(momentMs + DAY_MS, windowEndMs)
}

/**
 * Resets that were announced to a worker. They are applied when their counter is next used: before that, nobody knows where its own count
 * is.
 */
class AnnouncedResets {
  readonly #byIdentity = new Map<string, Map<string, AnnouncedReset>>()
  #lastAnnouncedMs = Number.NEGATIVE_INFINITY
  #size = 0

  get isEmpty(): boolean {
    return this.#size === 0
  }

  /** When the last one was added, on the monotonic clock. */
  get lastAnnouncedMs(): number {
    return this.#lastAnnouncedMs
  }

  /** Adds resets, and removes those that need not be remembered any more; `wallMs` is by the clock of Redis. */
  add(resets: readonly AnnouncedReset[], nowMs: number, wallMs: number): void {
    this.#prune(wallMs)
    for (const reset of resets) {
      const { key, identity, momentMs, forgetMs } = reset
      const known = this.#byIdentity.get(identity)
      const before = known?.get(key)
      if (forgetMs <= wallMs || (before !== undefined && before.momentMs >= momentMs)) continue
      if (known === undefined) this.#byIdentity.set(identity, new Map([[key, reset]]))
      else known.set(key, reset)
      if (before === undefined) this.#size++
      this.#lastAnnouncedMs = nowMs
    }
  }

  /** Returns the last reset of the counter's subject that has this key; `wallMs` is by the clock of Redis. */
  find(counter: FleetCounter, keyOf: () => string, wallMs: number): AnnouncedReset | undefined {
    const reset = this.#byIdentity.get(counter.identityDigest)?.get(keyOf())
    if (reset === undefined) return undefined
    const { limit } = counter
    // A reset in an earlier window says nothing about this one.
    const isOver = limit.kind === WINDOW && limit.calendar.windowAt(wallMs).startMs > reset.momentMs
    return isOver ? undefined : reset
  }

  #prune(wallMs: number): void {
    for (const [identity, resets] of this.#byIdentity) {
      for (const [key, { forgetMs }] of resets) {
        if (forgetMs > wallMs) continue
        resets.delete(key)
        this.#size--
      }
      if (resets.size === 0) this.#byIdentity.delete(identity)
    }
  }
}

/** Returns the reset as it is stored in Redis, under its key. */
export function resetEntry({ key, identity, momentMs, forgetMs }: AnnouncedReset): readonly [key: string, entry: string] {
  return [key, controlEntryText({ momentMs, forgetMs, untilMs: 0, id: undefined, text: identity })]
}

/** Returns undefined if the entry is not one of ours. */
export function resetOf(key: string, entry: string): AnnouncedReset | undefined {
  const read = readControlEntry(entry)
  return read && { key, identity: read.text, momentMs: read.momentMs, forgetMs: read.forgetMs }
}
