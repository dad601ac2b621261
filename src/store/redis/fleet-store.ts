import type { Clock } from '../../clock.ts'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { Answers, type Taken } from '../answers.ts'
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
  readonly clock: Clock
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

  constructor(parts: FleetStoreParts) {
    this.#parts = parts
  }

  open(spec: CounterSpec): FleetCounter {
    return new FleetCounter(spec, this.#parts.local.prefixOf(spec.identity))
  }

  takeAll(charges: Charges, answers: Answers, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    return this.#ask('take', charges, answers, nowMs, wallMs)
  }

  checkAll(charges: Charges, answers: Answers, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    return this.#ask('check', charges, answers, nowMs, wallMs)
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): void | Promise<void> {
    if (taken.from === 'nobody') return
    this.#parts.local.settleAll(charges, taken, nowMs, wallMs)
    if (taken.from === 'shared') return this.#parts.shared.settle(charges, taken.wallMs, nowMs)
  }

  resetAll(charges: Charges, nowMs: number, wallMs: number): void {
    this.#parts.local.resetAll(charges, nowMs, wallMs)
  }

  stats(): StoreStats {
    return this.#parts.local.stats()
  }

  #ask(action: 'take' | 'check', charges: Charges, answers: Answers, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    const { leases, listener } = this.#parts
    answers.growTo(charges.length)
    if (leases === undefined) return this.#askShared(action, charges, answers, undefined, nowMs, wallMs)
    const answer = leases.answer(action, charges, answers, nowMs, wallMs)
    if (typeof answer !== 'boolean') return this.#askShared(action, charges, answers, answer, nowMs, wallMs)
    listener.onAnswer(answer ? 'lease' : 'refusal')
    answers.takenWallMs = wallMs
    answers.takenFrom = 'shared'
    return answer
  }

  #askShared(
    action: 'take' | 'check',
    charges: Charges,
    answers: Answers,
    errand: Errand | undefined,
    nowMs: number,
    wallMs: number,
  ): Outcome | Promise<Outcome> {
    const { shared, local, leases, listener } = this.#parts
    const own = new Answers()
    local.checkAll(charges, own, nowMs, wallMs)
    const groups = shared.callsFor(action, charges, own, errand?.rows ?? rowsOf(charges), nowMs, wallMs, errand?.asks)
    if (groups === undefined) {
      if (errand !== undefined) leases!.onFailure(errand)
      return this.#askElsewhere(action, charges, answers, nowMs, wallMs)
    }
    answers.takenWallMs = wallMs
    const leased = errand && new Map<number, Grant>()
    return shared.ask(groups, charges, answers, leased).then(
      (fits) => {
        listener.onAnswer('redis')
        const holds = fits && (action === 'check' || this.#takeOwn(charges, answers, own, errand))
        if (fits && !holds) void shared.giveBack(groups, leased)
        answers.takenFrom = 'shared'
        if (errand !== undefined) leases!.onAnswer(errand, holds, charges, answers, leased!)
        return holds
      },
      (error: unknown) => {
        if (errand !== undefined) leases!.onFailure(errand)
        if (!(error instanceof LinkError)) throw error
        return this.#askElsewhere(action, charges, answers, nowMs, wallMs)
      },
    )
  }

  #askElsewhere(action: 'take' | 'check', charges: Charges, answers: Answers, nowMs: number, wallMs: number): Outcome {
    const { local, failureMode, listener } = this.#parts
    listener.onAnswer('failure_mode')
    if (failureMode === 'closed') return 'unavailable'
    if (failureMode === 'local') {
      return action === 'take' ? local.takeAll(charges, answers, nowMs, wallMs) : local.checkAll(charges, answers, nowMs, wallMs)
    }
    for (let row = 0; row < charges.length; row++) {
      const { limit } = charges.counters[row]!
      answers.levels[row] = algorithmOf(limit).size(limit)
      answers.waitsMs[row] = 0
    }
    answers.takenWallMs = wallMs
    answers.takenFrom = 'nobody'
    return true
  }

  /**
   * What is taken from the fleet is taken here too. So each instance keeps its own share of every limit in mind, and a Redis
   * that is away or has forgotten hands out none of them anew. Answers false where the own count has no room for it: Redis
   * has forgotten, or was left, while this was on its way. What leases hold was had before, and is charged in any case.
   */
  #takeOwn(charges: Charges, { takenWallMs }: Answers, own: Answers, errand: Errand | undefined): boolean {
    const { shared, local, clock } = this.#parts
    const paid = errand === undefined ? NONE : errand.held.map(({ row }) => row)
    return local.chargeAll(charges, own, clock.nowMs(), takenWallMs, shared.slackMs, paid)
  }
}
