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
import type { CallerVerdict } from '../../request/caller.ts'
import type { Identification } from '../../request/descriptors.ts'
import type { RequestView } from '../../request/view.ts'
import { EmbeddedStore } from '../../store/table/embedded-store.ts'
import { SharedTable } from '../../store/table/shared-table.ts'
import { newTableBuffer } from '../../store/table/table-layout.ts'
import type { Clock } from '../../time/clock.ts'
import { GatewayDoor, ProxyDoor, type SimulatedDoor, type SimulatedRequest } from './simulated-doors.ts'

export interface SimulationOptions {
  readonly mode: 'decision_service' | 'reverse_proxy'
  /** Start in Unix time. */
  readonly startMs: number
  /** Memory for counters, fixed from the start. 64 MiB hold a million callers. */
  readonly storeBytes: number
  readonly identification: Identification
  /** Whether the gateways' hints about bodies are used. */
  readonly hasHints: boolean
  readonly maxBodyBytes: number
}

/** A response as its caller gets it, and what decided it. */
export interface SimulatedResponse {
  readonly status: number
  /** The value of X-Edge-Reason; for an allowed request, `all_rules_passed` or the reason for which a shadow policy would reject it. */
  readonly reason: Reason
  /** The policy that rejected; else one that would reject; else the most constrained. */
  readonly policy: string | undefined
  readonly rule: string | undefined
  /** Names and values in turn, without fields that every response has. */
  readonly headers: HeaderList
  readonly answer: DecisionAnswer
}

/** A fixed key, so that every simulation of a bundle has the same results, even if the store is full. */
const HASH_KEY = [0x65646765, 0x73696d31] as const

/**
 * Runs a bundle on the engine and the store that serve requests, with a clock that moves only on command, without sockets or threads. Requests
 * at the same moment are in flight together; they end when the clock moves on.
 */
export class Simulation {
  readonly plan: Plan
  /** The limit keys' values of the caller that was last rejected. */
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

  /** The simulated time, in Unix time. */
  get nowMs(): number {
    return this.#clock.nowMs()
  }

  /** Number of callers whose counters were dropped because the store was full; they may get more than their limits from then on. */
  get forcedEvictions(): number {
    return this.#store.stats().forcedEvictions
  }

  /** Decides a request as the server's door would. A time in the past is taken as the present. */
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

  /** A faster `decide` for requests whose heads have been read: it neither reads a body nor writes header fields. */
  decideView(view: RequestView, atMs: number, caller?: CallerVerdict): Decision {
    this.moveTo(atMs)
    const decision = this.#door.decideView(view, caller)
    if (this.#door.endsRequests) this.#note(decision, undefined)
    return decision
  }

  /** Explains what the request would get now. Takes nothing. */
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

  /** Without a usage, tokens and money stay taken, because nobody knows what the response would have cost. */
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
