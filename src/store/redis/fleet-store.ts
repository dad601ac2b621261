import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { SLICES } from '../../limiter/algorithms/in-flight.ts'
import type { InFlightLimit } from '../../limiter/limit.ts'
import type { ChargeResults, Charges, Taken } from '../charges.ts'
import type { CounterLocator } from '../counter-locator.ts'
import type { CounterSpec, CounterStore, OnWarning, Outcome, Purpose, StoreStats } from '../counter-store.ts'
import { rowsOf } from './counter-rows.ts'
import { FleetCounter } from './fleet-counter.ts'
import { FleetQueries, type FleetQueriesParts, MAX_ASKED } from './fleet-queries.ts'
import { type AnnouncedReset, type AnnounceResets, FleetResets } from './fleet-resets.ts'
import { LinkError } from './link/call.ts'

export interface FleetStoreParts extends FleetQueriesParts {
  /** Announces resets to all instances; undefined if this is the only one. Rejects with a LinkError. */
  readonly announce?: AnnounceResets | undefined
}

/** Counters that a fleet shares in Redis. While Redis is unreachable, the failure mode decides, and only a reset rejects. */
export class FleetStore implements CounterStore {
  readonly #parts: FleetStoreParts
  readonly #resets: FleetResets
  readonly #queries: FleetQueries

  constructor(parts: FleetStoreParts) {
    this.#parts = parts
    this.#resets = new FleetResets(parts)
    this.#queries = new FleetQueries(parts, this.#resets)
  }

  open(spec: CounterSpec): FleetCounter {
    return new FleetCounter(spec, this.#parts.local.lookupOf(spec.identity))
  }

  takeAll(
    charges: Charges,
    results: ChargeResults,
    nowMs: number,
    wallMs: number,
    purpose: Purpose = 'decision',
  ): Outcome | Promise<Outcome> {
    return this.#queries.ask('take', charges, results, nowMs, wallMs, purpose)
  }

  checkAll(
    charges: Charges,
    results: ChargeResults,
    nowMs: number,
    wallMs: number,
    purpose: Purpose = 'decision',
  ): Outcome | Promise<Outcome> {
    return this.#queries.ask('check', charges, results, nowMs, wallMs, purpose)
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void | Promise<void> {
    if (taken.from === 'none') return
    const isShared = taken.from === 'shared'
    // The own count also notes the shares that it reached, so that it does not warn again when Redis is unreachable.
    this.#parts.local.settleAll(charges, taken, nowMs, wallMs, isShared ? undefined : onWarning)
    if (isShared) return this.#parts.shared.settle(charges, taken, nowMs, onWarning).then(() => {})
  }

  locatorsOf(charges: Charges, taken: Taken): CounterLocator[] {
    const { local, shared } = this.#parts
    // Even a hold that was taken while Redis was unreachable gets a key, because it may be renewed in Redis.
    return local.locatorsOf(charges, taken).map((locator, row) => ({ ...locator, key: shared.digestOf(charges, row) }))
  }

  async settleLocated(
    charges: Charges,
    taker: string | undefined,
    taken: Taken,
    nowMs: number,
    wallMs: number,
    onWarning?: OnWarning,
  ): Promise<boolean> {
    const { local, shared, corrections } = this.#parts
    if (taken.from === 'none') return true
    const isShared = taken.from === 'shared'
    const isKnown = isShared ? shared.settle(charges, taken, nowMs, onWarning) : true
    if (this.#isOwn(taker)) {
      await this.#catchUp(charges)
      local.settleAll(charges, taken, nowMs, wallMs, isShared ? undefined : onWarning)
    } else if (taker !== undefined) await corrections!.leave(taker, charges, taken)
    return isKnown
  }

  /**
   * If Redis cannot be asked, holds stay as they are for half of their time. From then on they are renewed in this process's own counters
   * alone: in Redis they end with their slice, and the next renewal takes them there again.
   */
  async renewAll(charges: Charges, taken: Taken, nowMs: number): Promise<Taken> {
    const { shared, local, clock } = this.#parts
    const renewed = await shared.renew(charges, taken, nowMs)
    if (renewed === 'not_sent' && taken.from === 'shared' && this.#isInFirstHalf(charges, taken)) return taken
    if (renewed === undefined || renewed === 'not_sent') {
      return local.renewAll(charges, taken, clock.nowMs(), shared.redisWallMs(clock.wallMs()))
    }
    if (renewed !== taken) local.moveHolds(charges, taken, renewed.wallMs, clock.nowMs())
    return renewed
  }

  /** If Redis cannot be asked, holds of another instance stay in their slice, and the next renewal takes them again. */
  async renewLocated(charges: Charges, taker: string | undefined, taken: Taken, nowMs: number): Promise<Taken> {
    if (this.#isOwn(taker)) {
      await this.#catchUp(charges)
      return this.renewAll(charges, taken, nowMs)
    }
    const renewed = await this.#parts.shared.renew(charges, taken, nowMs)
    if (renewed === undefined || renewed === 'not_sent' || renewed === taken) return taken
    if (taker !== undefined) await this.#parts.corrections!.leave(taker, charges, taken, renewed.wallMs)
    return renewed
  }

  /**
   * Resets the counters in Redis, then here, and then announces that to other instances. Rejects with a LinkError: counters on nodes that
   * failed are unchanged, unless its `outcome` is `unknown`. It is safe to reset again.
   */
  async resetAll(charges: Charges, nowMs: number, wallMs: number): Promise<void> {
    const { shared } = this.#parts
    const made: AnnouncedReset[] = []
    for (let asked = 1; asked <= MAX_ASKED; asked++) {
      const own = this.#queries.ownCounts(charges, nowMs, wallMs)
      const { calls, failure } = await shared.reset({ charges, own, rows: rowsOf(charges), nowMs, wallMs })
      this.#resets.apply(calls, charges)
      made.push(...this.#resets.madeBy(calls, charges))
      if (failure === undefined && calls.some(({ reply }) => reply!.fits === 'other_window')) continue
      await this.#resets.announce(made)
      if (failure !== undefined) throw failure
      return
    }
    throw clockError()
  }

  /**
   * Notes resets that other instances made: own counts, leases and refusals from before them are dropped when their counter is next used.
   */
  noteResets(resets: readonly AnnouncedReset[]): void {
    this.#resets.note(resets)
  }

  stats(): StoreStats {
    return this.#parts.local.stats()
  }

  #isOwn(taker: string | undefined): boolean {
    const { corrections } = this.#parts
    return taker !== undefined && (corrections === undefined || corrections.instance === taker)
  }

  /** Moves holds that another instance renewed in the own count first: a move that came after their release would take them again. */
  async #catchUp(charges: Charges): Promise<void> {
    const hasHolds = rowsOf(charges).some((row) => algorithmOf(charges.counters[row]!.limit).isSliced)
    if (hasHolds) await this.#parts.corrections?.apply()
  }

  /** Returns whether holds that were taken or renewed at that time still count when the next renewal is due. */
  #isInFirstHalf({ counters, length }: Charges, { wallMs: takenMs }: Taken): boolean {
    const { shared, clock } = this.#parts
    const ageMs = shared.redisWallMs(clock.wallMs()) - takenMs
    return counters.slice(0, length).every((counter) => ageMs <= ((counter!.limit as InFlightLimit).sliceMs * SLICES) / 2)
  }
}

function clockError(): LinkError {
  return new LinkError('refused', 'clock', 'the clock of Redis jumped during the call, twice; the counters on that node were not changed')
}
