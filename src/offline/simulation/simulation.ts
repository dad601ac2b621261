import type { Usage } from '../../costs/cost.ts'
import type { DecisionAnswer } from '../../decide/decision-answer.ts'
import type { RequestExplanation } from '../../decide/request-explanation.ts'
import type { Decision } from '../../engine/decision.ts'
import { Engine } from '../../engine/engine.ts'
import type { Reason } from '../../engine/reasons.ts'
import { type Reservation, settledAmount } from '../../engine/reservation.ts'
import type { CallerWatch } from '../../engine/watchers.ts'
import type { HeaderList } from '../../http1/header-fields.ts'
import type { Plan } from '../../policy/plan.ts'
import type { Identification } from '../../request/descriptors.ts'
import type { RequestView } from '../../request/view.ts'
import { EmbeddedStore } from '../../store/table/embedded-store.ts'
import { SharedTable } from '../../store/table/shared-table.ts'
import { newTableBuffer } from '../../store/table/table-layout.ts'
import type { Clock } from '../../time/clock.ts'
import { GatewayDoor, ProxyDoor, type SimulatedDoor, type SimulatedRequest } from './simulated-doors.ts'

export interface SimulationOptions {
  readonly mode: 'decision_service' | 'reverse_proxy'
  /** Unix time. */
  readonly startMs: number
  /** Memory for counters, fixed from the start. 64 MiB hold a million callers. */
  readonly storeBytes: number
  readonly identification: Identification
  /** Whether what gateways say about bodies counts. */
  readonly hasHints: boolean
  readonly maxBodyBytes: number
}

/** A response as its caller gets it, and who decided it. */
export interface SimulatedResponse {
  readonly status: number
  /** As in X-Edge-Reason; of an allowed request `all_rules_passed`, or the reason of a would-reject. */
  readonly reason: Reason
  /** The one that rejected, else a would-reject's, else the most constrained. */
  readonly policy: string | undefined
  readonly rule: string | undefined
  /** Names and values in turn, without those that every response has. */
  readonly headers: HeaderList
  readonly answer: DecisionAnswer
}

/** Every simulation of a bundle gives the same results, even those of a store that is full. */
const HASH_KEY = [0x65646765, 0x73696d31] as const

/**
 * A bundle on the engine and the store that serve requests, with a clock that only moves when it is told to. No socket, no thread. Requests
 * of the same moment are in flight together; they end when the clock moves on.
 */
export class Simulation {
  readonly plan: Plan
  /** The limit keys' values of the caller that was rejected last. */
  rejectedValues: readonly string[] = []
  readonly #clock: VirtualClock
  readonly #store: EmbeddedStore
  readonly #engine: Engine
  readonly #door: SimulatedDoor
  #inFlight: { readonly reservation: Reservation; readonly usage: Usage | undefined }[] = []

  constructor(plan: Plan, options: SimulationOptions) {
    const { identification, hasHints, maxBodyBytes } = options
    this.plan = plan
    this.#clock = new VirtualClock(options.startMs)
    this.#store = new EmbeddedStore(new SharedTable(newTableBuffer(options.storeBytes), 1), HASH_KEY)
    const callerWatch: CallerWatch = {
      onReject: (rule, values, from) => {
        this.rejectedValues = values.slice(from, from + rule.limitKeys.length)
      },
      onLevels: () => {},
    }
    this.#engine = new Engine({ store: this.#store, clock: this.#clock, identification, callerWatch })
    this.#engine.activate(plan)
    this.#door =
      options.mode === 'decision_service'
        ? new GatewayDoor(this.#engine, hasHints)
        : new ProxyDoor(this.#engine, maxBodyBytes, identification.trustedProxies)
  }

  /** Unix time. */
  get nowMs(): number {
    return this.#clock.nowMs()
  }

  /** Callers whose counters were dropped, because the store was full: from then on they may get more than their limits. */
  get forcedEvictions(): number {
    return this.#store.stats().forcedEvictions
  }

  /** Decides a request as the server's door would. A time in the past counts as the present one. */
  async decide(request: SimulatedRequest, atMs: number): Promise<SimulatedResponse> {
    this.moveTo(atMs)
    const answer = await this.#door.decide(request)
    const { decision } = answer
    if (decision !== undefined) this.#note(decision, request.usage)
    return {
      status: answer.status,
      reason: decision?.reason ?? answer.refusal!,
      policy: decision?.policy?.id,
      rule: decision?.rule?.name,
      headers: this.#door.headersOf(answer),
      answer,
    }
  }

  /** The same, fast, for requests whose heads were read already: no body is read, and no header field written. */
  decideView(view: RequestView, atMs: number): Decision {
    this.moveTo(atMs)
    const decision = this.#door.decideView(view)
    if (this.#door.endsRequests) this.#note(decision, undefined)
    return decision
  }

  /** What the request would get now, and why. Takes nothing. */
  explain(request: SimulatedRequest): Promise<RequestExplanation> {
    return this.#door.explain(request)
  }

  moveTo(atMs: number): void {
    if (atMs <= this.nowMs) return
    const ended = this.#inFlight
    this.#inFlight = []
    for (const { reservation, usage } of ended) this.#end(reservation, usage)
    this.#clock.moveTo(atMs)
  }

  #note(decision: Decision, usage: Usage | undefined): void {
    if (decision.action !== 'allow' || decision.reservation === undefined) return
    if (usage !== undefined || this.#door.endsRequests) this.#inFlight.push({ reservation: decision.reservation, usage })
  }

  /** Without a usage, what was taken of tokens and money stays taken: nobody knows what the response would have cost. */
  #end({ charges, holds }: Reservation, usage: Usage | undefined): void {
    if (usage !== undefined) for (const charge of charges) void this.#engine.settle(charge, settledAmount(charge, usage))
    for (const hold of holds) void this.#engine.settle(hold, 0)
  }
}

/** A clock that stands still until it is moved, and never goes back. Both kinds of time are the same number, so they cannot drift apart. */
class VirtualClock implements Clock {
  #ms: number

  constructor(startMs: number) {
    this.#ms = startMs
  }

  nowMs(): number {
    return this.#ms
  }

  wallMs(): number {
    return this.#ms
  }

  moveTo(ms: number): void {
    if (ms > this.#ms) this.#ms = ms
  }
}
