import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Clock } from '../../time/clock.ts'
import { ChargeResults, type Charges } from '../charges.ts'
import type { Outcome, Purpose } from '../counter-store.ts'
import type { EmbeddedStore } from '../table/embedded-store.ts'
import type { Corrections } from './corrections.ts'
import { type CounterQuery, isChargedAlong, type OwnCounts, rowsOf } from './counter-rows.ts'
import type { FleetCounter } from './fleet-counter.ts'
import type { FleetResets } from './fleet-resets.ts'
import type { Leases } from './leases/leases.ts'
import type { RemoteRequest } from './leases/remote-request.ts'
import { LinkError } from './link/call.ts'
import { applyRefunds, type QueryCall } from './script-calls.ts'
import type { SharedCounters } from './shared-counters.ts'

/**
 * How decisions are made while Redis is unreachable: by this process's own counters (`local`), or without counters, so that all requests
 * pass (`open`) or none do (`closed`).
 */
type FailureMode = 'local' | 'open' | 'closed'

export interface FleetQueriesParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  /** Pre-fetched tokens, if enabled. */
  readonly leases?: Leases | undefined
  /** Corrections that instances leave for one another; undefined if this is the only instance. */
  readonly corrections?: Corrections | undefined
  readonly failureMode: FailureMode
  readonly clock: Clock
  readonly listener: FleetListener
}

interface FleetListener {
  /** Called after each decision, with what decided it. */
  onDecided(by: 'redis' | 'lease' | 'refusal' | 'failure_mode'): void
}

const NONE: readonly number[] = []
/** How often a query is sent: one that names the wrong windows gets the time of Redis, and is sent again with the right ones. */
export const MAX_ASKED = 2

/** Decides by leases, by Redis, or by the failure mode while Redis is unreachable. */
export class FleetQueries {
  readonly #parts: FleetQueriesParts
  readonly #resets: FleetResets
  // Results of this process's own counters. They are read before the first await, so that all decisions can share them.
  readonly #own = new ChargeResults()
  #resetsMs = new Float64Array(16)

  constructor(parts: FleetQueriesParts, resets: FleetResets) {
    this.#parts = parts
    this.#resets = resets
  }

  /** Takes all rows or none, or only checks whether they could be taken. */
  ask(
    action: 'take' | 'check',
    charges: Charges,
    results: ChargeResults,
    nowMs: number,
    wallMs: number,
    purpose: Purpose,
  ): Outcome | Promise<Outcome> {
    const { leases, listener } = this.#parts
    results.growTo(charges.length)
    if (leases !== undefined && this.#resets.mayHoldLeases(nowMs)) this.#resets.meet(charges, nowMs, wallMs)
    const decided = leases?.decide(action, charges, results, nowMs, wallMs)
    if (typeof decided !== 'boolean')
      return this.#askShared({ action, charges, results, request: decided, nowMs, wallMs, asked: 1, purpose })
    if (purpose === 'decision') listener.onDecided(decided ? 'lease' : 'refusal')
    results.wallMs = wallMs
    results.momentMs = wallMs
    results.takenFrom = 'shared'
    return decided
  }

  /**
   * Returns this process's own counts in the windows that Redis is in, by our estimate of its clock. They are valid until the next call.
   */
  ownCounts(charges: Charges, nowMs: number, wallMs: number): OwnCounts {
    const { shared, local } = this.#parts
    if (charges.length > this.#resetsMs.length) this.#resetsMs = new Float64Array(charges.length * 2)
    local.checkWithResets(charges, this.#own, this.#resetsMs, nowMs, shared.redisWallMs(wallMs))
    return { levels: this.#own.levels, resetsMs: this.#resetsMs }
  }

  #askShared(asking: Asking): Outcome | Promise<Outcome> {
    const { action, charges, results, request, nowMs, wallMs, purpose } = asking
    const { shared, leases } = this.#parts
    this.#resets.meet(charges, nowMs, wallMs)
    const own = this.ownCounts(charges, nowMs, wallMs)
    const query: CounterQuery = { charges, own, rows: request?.rows ?? rowsOf(charges), leases: request?.leases, nowMs, wallMs, purpose }
    const calls = shared.callsFor(action, query)
    if (calls === undefined) return this.#decideByFailureMode(asking)
    const mayBeCorrected = !asking.isCorrected && this.#lacksOwn(charges, own)
    results.wallMs = wallMs
    results.momentMs = wallMs
    return shared.ask(calls, charges, results).then(
      (fits) => {
        if (fits === 'other_window') return this.#askAgain(asking)
        return !fits && mayBeCorrected ? this.#askCorrected(asking, calls) : this.#conclude(asking, calls, fits)
      },
      (error: unknown) => {
        if (error instanceof LinkError) return this.#decideByFailureMode(asking)
        if (request !== undefined) leases!.onFailure(request)
        throw error
      },
    )
  }

  #conclude(asking: Asking, calls: readonly QueryCall[], fits: boolean): boolean {
    const { action, charges, results, request } = asking
    const { shared, local, leases, clock, listener } = this.#parts
    if (asking.purpose === 'decision') listener.onDecided('redis')
    this.#resets.apply(calls, charges)
    applyRefunds(calls, charges, local, clock.nowMs())
    const holds = fits && (action === 'check' || this.#takeOwn(asking))
    if (fits && !holds) {
      void shared.giveBack(calls)
      results.describe(this.#own, charges.length)
    }
    results.takenFrom = 'shared'
    if (request !== undefined) leases!.onReply(request, holds, charges, results, calls)
    return holds
  }

  /**
   * Called when the own count has rejected: it may pass once the settlements of other instances are applied, and then Redis is asked again.
   */
  async #askCorrected(asking: Asking, calls: readonly QueryCall[]): Promise<Outcome> {
    const { charges, nowMs, wallMs } = asking
    const count = await this.#parts.corrections!.apply()
    // If there was nothing to apply, another thread may have applied it since the own count was read.
    const isCorrected = count > 0 || !this.#lacksOwn(charges, this.ownCounts(charges, nowMs, wallMs))
    return isCorrected ? this.#askShared({ ...asking, isCorrected }) : this.#conclude(asking, calls, false)
  }

  /** Returns whether the own count would reject, and may be too low because another instance has settled what was taken here. */
  #lacksOwn(charges: Charges, { levels }: OwnCounts): boolean {
    if (this.#parts.corrections?.isExpected() !== true) return false
    for (let row = 0; row < charges.length; row++) {
      if ((charges.counters[row] as FleetCounter).isSettled && levels[row]! < charges.costs[row]!) return true
    }
    return false
  }

  #askAgain(asking: Asking): Outcome | Promise<Outcome> {
    const asked = asking.asked + 1
    return asked > MAX_ASKED ? this.#decideByFailureMode(asking) : this.#askShared({ ...asking, asked })
  }

  #decideByFailureMode(asking: Asking): Outcome {
    const { action, charges, results, request, nowMs, wallMs } = asking
    const { shared, local, leases, failureMode, listener } = this.#parts
    if (request !== undefined) leases!.onFailure(request)
    if (asking.purpose === 'decision') listener.onDecided('failure_mode')
    if (failureMode === 'closed') return 'unavailable'
    if (failureMode === 'local') {
      const redisWallMs = shared.redisWallMs(wallMs)
      return action === 'take'
        ? local.takeAll(charges, results, nowMs, redisWallMs, asking.purpose)
        : local.checkAll(charges, results, nowMs, redisWallMs)
    }
    for (let row = 0; row < charges.length; row++) {
      const { limit } = charges.counters[row]!
      results.levels[row] = algorithmOf(limit).size(limit)
      results.waitsMs[row] = 0
    }
    results.wallMs = wallMs
    results.momentMs = wallMs
    results.takenFrom = 'none'
    return true
  }

  /**
   * Charges what is taken from the fleet to this process's own counters too. Each instance thus knows its own share of every limit, and
   * none of it is granted again when Redis is unreachable or has lost its data. Returns false if the own count does not cover it, because
   * Redis lost its data or the failure mode decided while the call was pending. The buckets of a reservation that grows are charged in any
   * case. Tokens from leases were charged when these were granted.
   */
  #takeOwn({ charges, results, request, nowMs: askedMs, purpose }: Asking): boolean {
    const { shared, local, clock } = this.#parts
    const along = purpose === 'growth' ? rowsOf(charges).filter((row) => isChargedAlong(purpose, charges.counters[row]!.limit)) : NONE
    const leased = request?.held.map(({ row }) => row) ?? NONE
    return local.chargeAll(charges, this.#own, results, { nowMs: clock.nowMs(), askedMs }, shared.slackMs, { along, leased })
  }
}

/** A decision that waits for Redis. */
interface Asking {
  readonly action: 'take' | 'check'
  readonly charges: Charges
  readonly results: ChargeResults
  readonly request: RemoteRequest | undefined
  readonly nowMs: number
  readonly wallMs: number
  /** How often it was sent, including this time. */
  readonly asked: number
  readonly purpose: Purpose
  /** Whether it was rejected before, and own counts were corrected since. */
  readonly isCorrected?: boolean
}
