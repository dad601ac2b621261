import type { ChosenRoute } from '../../engine/evaluation.ts'
import { headerValue } from '../../http1/header-fields.ts'
import type { Choice, Routing } from '../../policy/routes/routing.ts'
import type { Backend } from '../backend/backend.ts'
import type { BackendFailure } from '../backend/backend-failure.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { type AttemptOutcome, AttemptPlan, type RequestProgress } from './attempt-plan.ts'
import { retryAfterMsOf } from './retry-after.ts'
import type { RoutedBackends, UsedBackend } from './routed-backends.ts'

/** The calls of one request to the backends of its route: which is next, on which connections, and what each of them says about its backend. */
export class RoutedAttempts {
  /** Calls so far. */
  count = 0
  readonly #backends: RoutedBackends
  readonly #routing: Routing
  readonly #plan: AttemptPlan<Choice>
  #choice: Choice | undefined
  #used: UsedBackend | undefined

  /** `model` is what the client asks for. */
  constructor(backends: RoutedBackends, { routing, route, stickyValues }: ChosenRoute, model: string | undefined) {
    const stickTo = stickyValues && JSON.stringify(stickyValues)
    const { health, clock } = backends.parts
    this.#backends = backends
    this.#routing = routing
    this.#plan = new AttemptPlan(route, { health, slots: backends.slotsOf(routing), clock, random: Math.random }, model, stickTo)
  }

  /** Begins the next call, if there is one; the call before it is over then. */
  begin(): 'begun' | 'cooling' | undefined {
    const next = this.#plan.next()
    if (typeof next !== 'object') return next
    this.#giveUp()
    this.#choice = next
    this.#used = this.#backends.use(this.#routing, next.backend)
    this.count++
    return 'begun'
  }

  get retryAfterMs(): number {
    return this.#plan.retryAfterMs
  }

  /** What the call under way is sent to. */
  get choice(): Choice {
    return this.#choice!
  }

  get backend(): Backend {
    return this.#used!.backend
  }

  get secrets(): RoutedBackends['parts']['secrets'] {
    return this.#backends.parts.secrets
  }

  mayRetry(outcome: AttemptOutcome, progress: RequestProgress): boolean {
    return this.#plan.mayRetry(outcome, progress)
  }

  /** Whether the request may have to be sent again although it was sent, so that its body is still needed. */
  get mayRepeat(): boolean {
    return this.#plan.mayRepeat
  }

  /** The head of an answer has arrived. */
  answered({ status, fields }: ResponseHead): void {
    const wallMs = this.#backends.parts.clock.wallMs()
    this.#plan.answered(status, retryAfterMsOf(headerValue(fields, 'retry-after'), headerValue(fields, 'date'), wallMs))
  }

  /** There was no answer, or not the whole of its head. Returns what that means for another attempt. */
  failed({ code }: BackendFailure, hasConnected: boolean): AttemptOutcome {
    if (code === 'backend_busy') {
      // A limit of our own: nothing was sent, and the backend is not at fault.
      this.#plan.abandon()
      return 'connect'
    }
    const outcome = !hasConnected ? 'connect' : code === 'backend_timeout' ? 'timeout' : 502
    if (outcome === 502) this.#plan.answered(outcome)
    else this.#plan.failed(outcome)
    return outcome
  }

  /** The request is over, however it ended. May be called any number of times. */
  end(): void {
    this.#plan.abandon()
    this.#giveUp()
  }

  #giveUp(): void {
    if (this.#used !== undefined) this.#backends.giveUp(this.#used)
    this.#used = undefined
  }
}
