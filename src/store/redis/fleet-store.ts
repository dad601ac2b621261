import type { Clock } from '../../clock.ts'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { Answers, type Taken } from '../answers.ts'
import type { Charges } from '../charges.ts'
import type { CounterSpec, CounterStore, Outcome, StoreStats } from '../counter-store.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import { applyResets } from './apply-resets.ts'
import { type OwnCounts, type Question, rowsOf } from './counter-rows.ts'
import { FleetCounter } from './fleet-counter.ts'
import type { Leases } from './leases/leases.ts'
import type { RemoteRequest } from './leases/remote-request.ts'
import { LinkError } from './link/link-error.ts'
import type { QuestionCall } from './question-call.ts'
import type { SharedCounters } from './shared-counters.ts'

/** What decides while Redis is away: this process's own counters, or nothing, and then every request passes (`open`) or none does (`closed`). */
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
/** Whoever names the wrong windows is told the time of Redis, and names the right ones. */
const MAX_ASKED = 2

/** Counters that a fleet shares in Redis. While Redis is away, the failure mode decides: only a reset rejects because of it. */
export class FleetStore implements CounterStore {
  readonly #parts: FleetStoreParts
  // What the own counters say: read before anything is waited for, so that one of each serves all decisions.
  readonly #own = new Answers()
  #resetsMs = new Float64Array(16)

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
    if (taken.from === 'shared') return this.#parts.shared.settle(charges, taken, nowMs)
  }

  /**
   * In Redis, and then here; other instances hear of it when they next ask. Rejects with a LinkError: the counters whose node has not
   * answered are as they were, unless its `outcome` is `unknown`. To reset once more is safe.
   */
  async resetAll(charges: Charges, nowMs: number, wallMs: number): Promise<void> {
    const { shared } = this.#parts
    for (let asked = 1; asked <= MAX_ASKED; asked++) {
      const own = this.#ownCounts(charges, nowMs, wallMs)
      const { calls, failure } = await shared.reset({ charges, own, rows: rowsOf(charges), nowMs, wallMs })
      this.#applyResets(calls, charges)
      if (failure !== undefined) throw failure
      if (calls.every(({ answer }) => answer!.fits !== 'other_window')) return
    }
    throw clockRunsAway()
  }

  stats(): StoreStats {
    return this.#parts.local.stats()
  }

  #ask(action: 'take' | 'check', charges: Charges, answers: Answers, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    const { leases, listener } = this.#parts
    answers.growTo(charges.length)
    if (leases === undefined) return this.#askShared({ action, charges, answers, request: undefined, nowMs, wallMs, asked: 1 })
    const answer = leases.answer(action, charges, answers, nowMs, wallMs)
    if (typeof answer !== 'boolean') return this.#askShared({ action, charges, answers, request: answer, nowMs, wallMs, asked: 1 })
    listener.onAnswer(answer ? 'lease' : 'refusal')
    answers.wallMs = wallMs
    answers.momentMs = wallMs
    answers.takenFrom = 'shared'
    return answer
  }

  #askShared(asking: Asking): Outcome | Promise<Outcome> {
    const { action, charges, answers, request, nowMs, wallMs } = asking
    const { shared, leases } = this.#parts
    const own = this.#ownCounts(charges, nowMs, wallMs)
    const question: Question = { charges, own, rows: request?.rows ?? rowsOf(charges), leases: request?.leases, nowMs, wallMs }
    const calls = shared.callsFor(action, question)
    if (calls === undefined) return this.#askElsewhere(asking)
    answers.wallMs = wallMs
    answers.momentMs = wallMs
    return shared.ask(calls, charges, answers).then(
      (fits) => {
        if (fits === 'other_window') return this.#askAgain(asking)
        this.#parts.listener.onAnswer('redis')
        this.#applyResets(calls, charges)
        const holds = fits && (action === 'check' || this.#takeOwn(charges, answers, request))
        if (fits && !holds) void shared.giveBack(calls)
        answers.takenFrom = 'shared'
        if (request !== undefined) leases!.onAnswer(request, holds, charges, answers, calls)
        return holds
      },
      (error: unknown) => {
        if (error instanceof LinkError) return this.#askElsewhere(asking)
        if (request !== undefined) leases!.onFailure(request)
        throw error
      },
    )
  }

  #askAgain(asking: Asking): Outcome | Promise<Outcome> {
    const asked = asking.asked + 1
    return asked > MAX_ASKED ? this.#askElsewhere(asking) : this.#askShared({ ...asking, asked })
  }

  #askElsewhere({ action, charges, answers, request, nowMs, wallMs }: Asking): Outcome {
    const { local, leases, failureMode, listener } = this.#parts
    if (request !== undefined) leases!.onFailure(request)
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
    answers.wallMs = wallMs
    answers.momentMs = wallMs
    answers.takenFrom = 'nobody'
    return true
  }

  /** In the windows that Redis is in, as far as that is known. Good until the next call. */
  #ownCounts(charges: Charges, nowMs: number, wallMs: number): OwnCounts {
    const { shared, local } = this.#parts
    if (charges.length > this.#resetsMs.length) this.#resetsMs = new Float64Array(charges.length * 2)
    local.checkWithResets(charges, this.#own, this.#resetsMs, nowMs, shared.redisWallMs(wallMs))
    return { levels: this.#own.levels, resetsMs: this.#resetsMs }
  }

  #applyResets(calls: readonly QuestionCall[], charges: Charges): void {
    const { local, leases, clock } = this.#parts
    applyResets(calls, charges, local, clock.nowMs(), (all, row) => leases?.forget(all, row))
  }

  /**
   * What is taken from the fleet is taken here too. So each instance keeps its own share of every limit in mind, and a Redis
   * that is away or has forgotten hands out none of them anew. Returns false where the own count has no room for it: Redis
   * has forgotten, or was left, while this was on its way. What leases hold was obtained before, and is charged in any case.
   */
  #takeOwn(charges: Charges, answers: Answers, request: RemoteRequest | undefined): boolean {
    const { shared, local, clock } = this.#parts
    const paid = request === undefined ? NONE : request.held.map(({ row }) => row)
    return local.chargeAll(charges, this.#own, answers, clock.nowMs(), shared.slackMs, paid)
  }
}

/** A decision on its way to Redis. */
interface Asking {
  readonly action: 'take' | 'check'
  readonly charges: Charges
  readonly answers: Answers
  readonly request: RemoteRequest | undefined
  readonly nowMs: number
  readonly wallMs: number
  /** How often, this time included. */
  readonly asked: number
}

function clockRunsAway(): LinkError {
  return new LinkError(
    'refused',
    'clock',
    'the clock of Redis left the windows that were named for it twice; counters on that node are as they were',
  )
}
