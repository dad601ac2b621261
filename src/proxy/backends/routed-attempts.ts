import type { ChosenRoute, SentRequest } from '../../engine/evaluation.ts'
import { headerValue } from '../../http1/header-fields.ts'
import { retryAfterMsOf } from '../../outbound/retry-after.ts'
import type { Choice, Routing } from '../../policy/routes/routing.ts'
import type { RouteOutcome } from '../../telemetry/metrics/route-metrics.ts'
import type { Backend } from '../backend/backend.ts'
import type { BackendCall } from '../backend/backend-call.ts'
import type { BackendFailure } from '../backend/backend-failure.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { type AttemptOutcome, AttemptPlan, type RequestProgress, refusalOrOutage, stickyKey } from './attempt-plan.ts'
import type { CoolingReason } from './cooling-record.ts'
import type { RoutedBackends, UsedBackend } from './routed-backends.ts'

/** The request that makes the calls. */
interface AttemptsOwner {
  /** Its trace is undefined if it is not traced. */
  readonly downstream: { readonly trace?: AttemptsTrace | undefined }
  readonly pending: { readonly isDebug: boolean; noteSent(sent: SentRequest): void }
  /** What is known of its body, if it was read. */
  readonly llm: { readonly model: string | undefined } | undefined
}

interface AttemptsTrace {
  noteSent(sent: SentRequest): void
}

/** A call and how it ended. */
interface EndedCall {
  readonly backend: string
  readonly outcome: RouteOutcome
}

/**
 * The calls of one request to the backends of its route: which is next, on which connections, and what each of them says about its backend. Every call is
 * counted once, by its outcome; the request as a whole is reported once, when its answer is known.
 */
export class RoutedAttempts implements SentRequest {
  /** Calls so far. */
  count = 0
  answeredBy: string | undefined
  readonly #backends: RoutedBackends
  readonly #routing: Routing
  readonly #owner: AttemptsOwner
  readonly #plan: AttemptPlan<Choice>
  /** Calls after which another one was made; most requests have none. */
  #left: EndedCall[] | undefined
  #choice: Choice | undefined
  #used: UsedBackend | undefined
  #startMs = 0
  /** How the call under way has ended. */
  #outcome: RouteOutcome | undefined
  #isReported = false

  constructor(backends: RoutedBackends, { routing, route, stickyValues }: ChosenRoute, owner: AttemptsOwner) {
    const { health, clock } = backends.parts
    this.#backends = backends
    this.#routing = routing
    this.#owner = owner
    const parts = { health, slots: backends.slotsOf(routing), clock, random: Math.random }
    this.#plan = new AttemptPlan(route, parts, owner.llm?.model, stickyKey(stickyValues))
  }

  /** Begins the next call, if there is one; the call before it is over then. */
  begin(): 'begun' | 'cooling' | undefined {
    const next = this.#plan.next()
    if (typeof next !== 'object') return next
    this.#giveUp()
    this.#choice = next
    this.#used = this.#backends.use(this.#routing, next.backend)
    this.#startMs = this.#backends.parts.clock.nowMs()
    this.#outcome = undefined
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

  /** Whether the request may have to be sent again although it was sent, so that its body is still needed. */
  get mayRepeat(): boolean {
    return this.#plan.mayRepeat
  }

  /** The head of an answer has arrived. */
  answered({ status, fields }: ResponseHead): void {
    const { clock } = this.#backends.parts
    const retryAfterMs = retryAfterMsOf(headerValue(fields, 'retry-after'), headerValue(fields, 'date'), clock.wallMs())
    this.#used!.series.seconds.observe((clock.nowMs() - this.#startMs) / 1000)
    this.#countOutcome(status)
    this.#noteHealth(this.#plan.answered(status, retryAfterMs), refusalOrOutage(status), retryAfterMs)
  }

  /** The call begins or ends to wait for what its client has yet to send. */
  noteUpload(isWaiting: boolean): void {
    this.#plan.noteUpload(isWaiting)
  }

  /** There was no answer, or not the whole of it. Returns what that means for another attempt. */
  failed(failure: BackendFailure, { hasConnected, isSent }: Pick<BackendCall, 'hasConnected' | 'isSent'>): AttemptOutcome {
    const { code } = failure
    failure.backend = this.choice.backend.name
    if (code === 'backend_busy') {
      // A limit of our own: nothing was sent, and the backend is not at fault.
      this.#countOutcome('busy')
      this.#plan.abandon()
      return 'connect'
    }
    const outcome = !hasConnected ? 'connect' : code === 'backend_timeout' ? 'timeout' : 502
    this.#countOutcome(outcome === 502 ? 'broken' : outcome)
    // Servers close the connections of clients that send too slowly, and that says nothing about the server.
    if (code === 'backend_reset' && !isSent) this.#plan.abandon()
    if (outcome === 502) this.#noteHealth(this.#plan.answered(outcome), '5xx', undefined)
    else this.#noteHealth(this.#plan.failed(outcome), outcome, undefined)
    return outcome
  }

  /** Begins another call after this outcome, if the route allows it and there is a backend for it. Otherwise the client gets what there is. */
  retry(outcome: AttemptOutcome, progress: RequestProgress): boolean {
    const { name: backend } = this.choice.backend
    const left = this.#used
    const ended = this.#outcome!
    if (!this.#plan.mayRetry(outcome, progress) || this.begin() !== 'begun') {
      this.#report()
      return false
    }
    left?.series.retries.count(ended)
    this.#left ??= []
    this.#left.push({ backend, outcome: ended })
    return true
  }

  /** The request is over, however it ended. May be called any number of times. */
  end(): void {
    this.#countOutcome('client_gone')
    this.#plan.abandon()
    this.#report()
    this.#giveUp()
  }

  get calls(): readonly EndedCall[] {
    const left = this.#left ?? []
    return this.#choice === undefined ? left : [...left, { backend: this.#choice.backend.name, outcome: this.#outcome! }]
  }

  /** A request that asks for no model is sent without one. */
  get modelSent(): string | undefined {
    const asked = this.#owner.llm?.model
    const model = this.#choice?.model
    return asked === undefined || model === asked ? undefined : model
  }

  /** Header fields for a client with a debug session, as lines; empty for all others. */
  get debugLines(): string {
    if (!this.#owner.pending.isDebug) return ''
    const { calls, answeredBy } = this
    if (calls.length === 0) return ''
    const attempts = calls.map(({ backend, outcome }) => `${backend} ${outcome}`).join(', ')
    return `${answeredBy === undefined ? '' : `X-Edge-Debug-Backend: ${answeredBy}\r\n`}X-Edge-Debug-Attempts: ${attempts}\r\n`
  }

  /** Only the first outcome of a call counts: an answer may break off later. */
  #countOutcome(outcome: RouteOutcome): void {
    if (this.#used === undefined || this.#outcome !== undefined) return
    this.#outcome = outcome
    this.#used.series.attempts.count(outcome)
  }

  #noteHealth(changes: number, reason: CoolingReason | undefined, retryAfterMs: number | undefined): void {
    if (changes === 0) return
    const { health, reports } = this.#backends.parts
    const { backend, model = this.#owner.llm?.model } = this.choice
    const untilMs = health.coolingUntil(this.#backends.slotsOf(this.#routing).get(backend.name)!, model)
    reports.note({ changes, backend: backend.name, model, reason, untilMs, hasRetryAfter: retryAfterMs !== undefined })
  }

  #report(): void {
    if (this.#isReported) return
    this.#isReported = true
    if (typeof this.#outcome === 'number') this.answeredBy = this.choice.backend.name
    this.#owner.downstream.trace?.noteSent(this)
    this.#owner.pending.noteSent(this)
  }

  #giveUp(): void {
    if (this.#used !== undefined) this.#backends.giveUp(this.#used)
    this.#used = undefined
  }
}
