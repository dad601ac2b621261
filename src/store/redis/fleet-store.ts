import type { Clock } from '../../clock.ts'
import { sizeOf } from '../../limiter/limit.ts'
import type { Charges } from '../charges.ts'
import type { CounterSpec, CounterStore, Outcome, StoreStats } from '../counter-store.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import { FleetCounter } from './fleet-counter.ts'
import type { Errand } from './leases/errand.ts'
import type { Leases } from './leases/leases.ts'
import { LinkError } from './link/redis-link.ts'
import { type Grant, rowsOf, type SharedCounters } from './shared-counters.ts'

/** What decides while Redis is away: this process's own counters, nobody (all pass), or nobody (none passes). */
type FailureMode = 'local' | 'open' | 'closed'

export interface FleetStoreParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  /** Tokens ahead of need, where they are wanted. */
  readonly leases?: Leases | undefined
  readonly failureMode: FailureMode
  readonly clock: Pick<Clock, 'nowMs'>
  readonly listener: FleetListener
}

interface FleetListener {
  /** A decision was asked for, and this has answered it. */
  onAnswer(by: 'redis' | 'lease' | 'refusal' | 'failure_mode'): void
}

const NONE: readonly number[] = []

/** Counters that a fleet shares in Redis. While Redis is away, the failure mode decides. Never rejects because of Redis. */
export class FleetStore implements CounterStore {
  readonly #parts: FleetStoreParts
  // What Redis answered, while the own counters are brought up to date
  #levels = new Float64Array(0)
  #waitsMs = new Float64Array(0)

  constructor(parts: FleetStoreParts) {
    this.#parts = parts
  }

  open(spec: CounterSpec): FleetCounter {
    return new FleetCounter(spec, this.#parts.local.prefixOf(spec.identity))
  }

  takeAll(charges: Charges, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    return this.#ask('take', charges, nowMs, wallMs)
  }

  checkAll(charges: Charges, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    return this.#ask('check', charges, nowMs, wallMs)
  }

  settleAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void> {
    if (charges.takenFrom === 'nobody') return
    if (charges.takenFrom === 'own') return this.#parts.local.settleAll(charges, nowMs, wallMs)
    this.#parts.local.settleAll(charges, nowMs, wallMs)
    return this.#parts.shared.settle(charges, nowMs)
  }

  stats(): StoreStats {
    return this.#parts.local.stats()
  }

  #ask(action: 'take' | 'check', charges: Charges, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    const { leases, listener } = this.#parts
    if (leases === undefined) return this.#askShared(action, charges, undefined, nowMs, wallMs)
    const answer = leases.answer(action, charges, nowMs, wallMs)
    if (typeof answer !== 'boolean') return this.#askShared(action, charges, answer, nowMs, wallMs)
    listener.onAnswer(answer ? 'lease' : 'refusal')
    charges.takenWallMs = wallMs
    charges.takenFrom = 'shared'
    return answer
  }

  #askShared(
    action: 'take' | 'check',
    charges: Charges,
    errand: Errand | undefined,
    nowMs: number,
    wallMs: number,
  ): Outcome | Promise<Outcome> {
    const { shared, local, leases, listener } = this.#parts
    local.checkAll(charges, nowMs, wallMs)
    const groups = shared.callsFor(action, charges, errand?.rows ?? rowsOf(charges), nowMs, wallMs, errand?.asks)
    if (groups === undefined) {
      if (errand !== undefined) leases!.onFailure(errand)
      return this.#askElsewhere(action, charges, nowMs, wallMs)
    }
    charges.takenWallMs = wallMs
    const leased = errand && new Map<number, Grant>()
    return shared.ask(groups, charges, leased).then(
      (fits) => {
        listener.onAnswer('redis')
        const holds = fits && (action === 'check' || this.#takeOwn(charges, errand))
        if (fits && !holds) void shared.giveBack(groups, leased)
        charges.takenFrom = 'shared'
        if (errand !== undefined) leases!.onAnswer(errand, holds, charges, leased!)
        return holds
      },
      (error: unknown) => {
        if (errand !== undefined) leases!.onFailure(errand)
        if (!(error instanceof LinkError)) throw error
        return this.#askElsewhere(action, charges, nowMs, wallMs)
      },
    )
  }

  #askElsewhere(action: 'take' | 'check', charges: Charges, nowMs: number, wallMs: number): Outcome {
    const { local, failureMode, listener } = this.#parts
    listener.onAnswer('failure_mode')
    if (failureMode === 'closed') return 'unavailable'
    if (failureMode === 'local') return action === 'take' ? local.takeAll(charges, nowMs, wallMs) : local.checkAll(charges, nowMs, wallMs)
    for (let row = 0; row < charges.length; row++) {
      charges.levels[row] = sizeOf(charges.counters[row]!.limit)
      charges.waitsMs[row] = 0
    }
    charges.takenWallMs = wallMs
    charges.takenFrom = 'nobody'
    return true
  }

  /**
   * What is taken from the fleet is taken here too. So each instance keeps its own share of every limit in mind, and a Redis
   * that is away or has forgotten hands out none of them anew. Answers false where the own count has no room for it: Redis
   * has forgotten, or was left, while this was on its way. What leases hold was had before, and is charged in any case.
   */
  #takeOwn(charges: Charges, errand: Errand | undefined): boolean {
    const { shared, local, clock } = this.#parts
    const { length, levels, waitsMs, takenWallMs } = charges
    if (length > this.#levels.length) {
      this.#levels = new Float64Array(levels.length)
      this.#waitsMs = new Float64Array(levels.length)
    }
    for (let row = 0; row < length; row++) {
      this.#levels[row] = levels[row]!
      this.#waitsMs[row] = waitsMs[row]!
    }
    const had = errand === undefined ? NONE : errand.held.map(({ row }) => row)
    if (!local.chargeAll(charges, clock.nowMs(), takenWallMs, shared.slackMs, had)) return false
    for (let row = 0; row < length; row++) {
      levels[row] = this.#levels[row]!
      waitsMs[row] = this.#waitsMs[row]!
    }
    return true
  }
}
