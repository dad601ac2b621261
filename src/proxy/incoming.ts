import type { ReadCost, UnreadBody } from '../decide/decide-in-steps.ts'
import type { DecisionAnswer } from '../decide/decision-answer.ts'
import type { PendingDecision } from '../decide/pending-decision.ts'
import type { RouteProblem } from '../engine/decision.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import type { Plan } from '../policy/plan.ts'
import type { PlannedRoute } from '../policy/routes/routing.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { RequestView } from '../request/view.ts'
import type { WaitOutcome } from '../telemetry/metrics/wait-metrics.ts'
import { type Insertion, routeProblem, routeRefusal } from './backends/routed-request.ts'
import { type Sender, senderOf } from './body/body-memory.ts'
import type { ReadBody } from './body/request-body.ts'
import { DepartureWatch } from './departure-watch.ts'
import type { Downstream, DownstreamListener } from './downstream.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { Waiter, WaitingRequest } from './waiting/waiting-room.ts'

/** What the proxy does for a request that is being decided. */
export interface IncomingHandler {
  readonly trustedProxies: TrustedProxies
  /** Reads the body and notes it in `incoming`. */
  readBody(incoming: Incoming, isEnforced: boolean, isRouted: boolean): Promise<ReadCost>
  /** Decides a request that has waited once more. Must not throw. */
  decideAgain(incoming: Incoming): void
  /** The client of a request that was waiting is gone. */
  onGone(incoming: Incoming): void
  /** Our own code threw an error while the request was waiting. */
  onBroken(incoming: Incoming, error: unknown): void
}

/** A request that is being decided, perhaps more than once because it waits for a rule in between. */
export class Incoming implements UnreadBody, WaitingRequest, DownstreamListener {
  readonly request: ProxiedRequest
  readonly view: RequestView
  readonly downstream: Downstream
  /** The plan that decides, or an earlier one. */
  plan: Plan | undefined
  pending!: PendingDecision
  /** The facts of the body, once it was read. */
  llm: LlmRequest | undefined
  /** The body, if it was read, until it is forwarded. */
  body: ReadBody | undefined
  /** What is wrong with the request, in words, if its route has found something. */
  refusalDetail: string | undefined
  /** How often requests had been ended for revoked keys when this one was last decided. */
  revocations = 0
  /** Set if the request may wait for a rule. */
  waiter: Waiter | undefined
  readonly #handler: IncomingHandler
  #departure: DepartureWatch | undefined
  #isWaiting = false

  constructor(request: ProxiedRequest, view: RequestView, downstream: Downstream, handler: IncomingHandler) {
    this.request = request
    this.view = view
    this.downstream = downstream
    this.#handler = handler
  }

  get contentLength(): number | undefined {
    return this.request.contentLength
  }

  /** A body is received once, however often the request is decided. */
  read(isEnforced: boolean, isRouted: boolean): Promise<ReadCost> {
    if (this.body === undefined) this.waiter?.stepAside()
    return this.#handler.readBody(this, isEnforced, isRouted)
  }

  problemWith(route: PlannedRoute): RouteProblem | undefined {
    const problem = routeProblem(this.request, route, this.body)
    if (problem === 'bad_request') this.refusalDetail = routeRefusal(this.request, route)
    return problem
  }

  /** `stream_options` are inserted at the beginning of the body, or change where they are. */
  insertion(bytes: Buffer): Insertion {
    return { at: this.llm!.streamOptionsAt ?? 0, length: bytes.length - this.body!.bytes.length }
  }

  get sender(): Sender {
    return senderOf(this.view, this.#handler.trustedProxies, this.downstream.peer)
  }

  get bodyBytes(): number {
    return this.body?.bytes.length ?? 0
  }

  /** Waits until the room decides the request again, or its client leaves. */
  wait(): void {
    this.#isWaiting = true
    if (this.downstream.isGone) return this.onClientGone()
    this.downstream.listener = this
    if (this.downstream.hasEnded) this.onClientEnded()
  }

  decideAgain(): void {
    this.#stopWaiting()
    this.#handler.decideAgain(this)
  }

  endWaitBy(answer: DecisionAnswer | undefined): void {
    if (this.waiter === undefined) return
    if (answer === undefined) this.endWait('client_gone')
    else if (answer.decision === undefined) this.endWait('refused')
    else this.endWait(answer.decision.action === 'allow' ? 'allowed' : 'rejected')
  }

  /** To be called when the request is decided for good, or its client is gone. */
  endWait(outcome: WaitOutcome): void {
    this.#endWatch()
    const waitedMs = this.waiter?.end(outcome)
    if (waitedMs !== undefined) this.downstream.trace?.noteWait(waitedMs)
  }

  /** Releases the body of a request that is neither forwarded nor waiting. */
  releaseBody(): void {
    if (!this.#isWaiting) this.body?.release()
  }

  onClientDrained(): void {
    // Nothing has been written that could have been too much.
  }

  onClientEnded(): void {
    this.#departure ??= new DepartureWatch(this.downstream, () => false)
  }

  onClientGone(): void {
    this.#stopWaiting()
    this.endWait('client_gone')
    this.releaseBody()
    this.#handler.onGone(this)
  }

  abandon(error: unknown): void {
    this.#stopWaiting()
    this.#endWatch()
    this.#handler.onBroken(this, error)
  }

  /** The watch of a half-closed client goes on: the first in line is decided again so often that a new one would never come to its first probe. */
  #stopWaiting(): void {
    this.#isWaiting = false
    this.downstream.listener = undefined
  }

  #endWatch(): void {
    this.#departure?.end()
    this.#departure = undefined
  }
}
