import { HalfSipHash, SubjectWords } from '../../store/subject.ts'
import type { Clock } from '../../time/clock.ts'
import type { BackendAttempt, BackendHealth } from './backend-health.ts'
import type { CoolingReason } from './cooling-record.ts'

/** A backend of a route, and what it is asked for. */
interface RouteChoice {
  readonly backend: { readonly name: string; readonly hasCredential: boolean }
  readonly weight: number
  readonly model: string | undefined
}

interface RoutePlan<Choice extends RouteChoice> {
  readonly group: readonly Choice[]
  readonly fallback: readonly Choice[]
  readonly retry: {
    /** Calls after the first one. */
    readonly attempts: number
    readonly connect: boolean
    readonly timeout: boolean
    handles(status: number): boolean
    readonly repeatsSent: boolean
  }
}

interface AttemptPlanParts {
  readonly health: BackendHealth
  /** Slots of the backends by name. */
  readonly slots: ReadonlyMap<string, number>
  readonly clock: Pick<Clock, 'nowMs'>
  /** A number from 0 to 1. */
  readonly random: () => number
}

/** How a call ended: with the status of an answer, or without one. A connection that breaks before the answer is a 502. */
export type AttemptOutcome = number | 'connect' | 'timeout'

/** What of a request has happened already. */
export interface RequestProgress {
  readonly isUpgrade: boolean
  /** Whether a byte of a response has left for the client. */
  readonly hasAnswered: boolean
  /** Whether the whole body, if there is one, is in memory. */
  readonly hasWholeBody: boolean
}

/** What a client is told at least if all backends cool: one may be back as soon as a probe has been answered. */
const SHORTEST_WAIT_MS = 1000

/**
 * The calls that one request makes, one after the other. The next is a backend that was not tried and does not cool, by weight, then the fallback in its
 * order. If all cool, the one whose deadline is nearest is tried by one request at a time. After each call, exactly one of `answered`, `failed` and
 * `abandon` is to be called.
 */
export class AttemptPlan<Choice extends RouteChoice> {
  /** How long the client is asked to wait if `next` has returned 'cooling'. */
  retryAfterMs = 0
  readonly #route: RoutePlan<Choice>
  readonly #parts: AttemptPlanParts
  readonly #model: string | undefined
  readonly #stickTo: string | undefined
  readonly #canCool: boolean
  readonly #isAlone: boolean
  readonly #tried: Choice[] = []
  #attempt: BackendAttempt | undefined

  /** `model` is what the client asks for. Requests with the same `stickTo` go to the same backend as long as it takes requests. */
  constructor(route: RoutePlan<Choice>, parts: AttemptPlanParts, model: string | undefined, stickTo: string | undefined) {
    this.#route = route
    this.#parts = parts
    this.#model = model
    this.#stickTo = stickTo
    // A backend without an alternative takes every request: no answer of ours would be better than its own.
    const first = route.group.find(({ weight }) => weight > 0)!
    this.#canCool = route.fallback.length > 0 || route.group.some((other) => other !== first && other.weight > 0)
    const isElsewhere = ({ backend }: Choice): boolean => backend.name !== first.backend.name
    this.#isAlone = !route.fallback.some(isElsewhere) && !route.group.some((other) => other.weight > 0 && isElsewhere(other))
  }

  /** Returns undefined if there is nothing more to try: the client gets the last answer. */
  next(): Choice | 'cooling' | undefined {
    const { group, fallback, retry } = this.#route
    if (this.#tried.length > retry.attempts) return undefined
    if (!this.#canCool) return this.#tried.length > 0 ? undefined : this.#begin(group.find(({ weight }) => weight > 0)!)
    const choice = this.#fromGroup() ?? fallback.find((untried) => this.#isUntried(untried) && this.#tryOpen(untried))
    if (choice !== undefined) return choice
    // A request that has an answer already, even a bad one, need not try a backend that cools.
    return this.#tried.length > 0 ? undefined : this.#lastResort()
  }

  /** The backend's answer has begun. `retryAfterMs` is what it asks for, if it does. Returns bits of `HEALTH`: what that has changed. */
  answered(status: number, retryAfterMs?: number): number {
    const attempt = this.#attempt
    if (attempt === undefined) return 0
    const { health } = this.#parts
    const reason = refusalOrOutage(status)
    const changes = reason === undefined ? health.noteSuccess(attempt) : health.noteFailure(attempt, reason, retryAfterMs)
    this.abandon()
    return changes
  }

  /** There was no answer. Returns bits of `HEALTH`, too. */
  failed(reason: 'connect' | 'timeout'): number {
    const changes = this.#attempt === undefined ? 0 : this.#parts.health.noteFailure(this.#attempt, reason, undefined)
    this.abandon()
    return changes
  }

  /** The call begins or ends to wait for what its client has yet to send. */
  noteUpload(isWaiting: boolean): void {
    if (this.#attempt !== undefined) this.#parts.health.noteUpload(this.#attempt, isWaiting)
  }

  /** The call has ended without saying anything about the backend: the client has left, or a limit of our own has ended it. */
  abandon(): void {
    if (this.#attempt !== undefined) this.#parts.health.endProbe(this.#attempt)
    this.#attempt = undefined
  }

  /** Whether another call may be made after this outcome. Without a connection nothing was sent, so the body need not be at hand. */
  mayRetry(outcome: AttemptOutcome, { isUpgrade, hasAnswered, hasWholeBody }: RequestProgress): boolean {
    const { retry } = this.#route
    if (isUpgrade || hasAnswered) return false
    if (outcome === 'connect') return retry.connect
    return hasWholeBody && (outcome === 'timeout' ? retry.timeout : retry.handles(outcome))
  }

  /** Whether the request may have to be sent again although it was sent. */
  get mayRepeat(): boolean {
    const { attempts, repeatsSent } = this.#route.retry
    return this.#canCool && repeatsSent && this.#tried.length <= attempts
  }

  /** Draws until a backend takes the request: one that recovers may have a probe already. */
  #fromGroup(): Choice | undefined {
    let busy: Choice[] | undefined
    for (;;) {
      const choice = this.#best(busy)
      if (choice === undefined || this.#tryOpen(choice)) return choice
      busy = [...(busy ?? []), choice]
    }
  }

  /**
   * Returns one of the group by weight, at random or by its key. Both are weighted rendezvous hashing: the highest of weight / -ln(u) wins, where u is
   * even between 0 and 1. So when a backend cools, only the keys that it had move, and they come back to it.
   */
  #best(busy: readonly Choice[] | undefined): Choice | undefined {
    let best: Choice | undefined
    let highest = 0
    for (const choice of this.#route.group) {
      if (busy?.includes(choice) || !this.#isUntried(choice) || this.#standing(choice) === 'cooling') continue
      const score = this.#stickTo === undefined ? scoreOf(choice, this.#parts.random()) : stickyScore(this.#stickTo, choice)
      if (score <= highest) continue
      best = choice
      highest = score
    }
    return best
  }

  /** Begins the call if the backend takes it. */
  #tryOpen(choice: Choice): boolean {
    const standing = this.#standing(choice)
    if (standing === 'cooling') return false
    const attempt = this.#attemptOf(choice)
    if (standing !== 'open' && !this.#parts.health.tryProbe(attempt)) return false
    this.#begin(choice, attempt)
    return true
  }

  #lastResort(): Choice | 'cooling' {
    const { health, clock } = this.#parts
    const usable = [...this.#route.group.filter(({ weight }) => weight > 0), ...this.#route.fallback]
    const past = usable.find((choice) => this.#standing(choice) === 'model_recovering')
    if (past !== undefined) return this.#begin(past)
    const deadlinesMs = usable.map((choice) => health.coolingUntil(this.#slotOf(choice), this.#modelOf(choice), this.#isAlone))
    const nearestMs = Math.min(...deadlinesMs)
    const nearest = usable[deadlinesMs.indexOf(nearestMs)]!
    const attempt = this.#attemptOf(nearest)
    if (health.tryProbe(attempt)) return this.#begin(nearest, attempt)
    this.retryAfterMs = Math.max(nearestMs - clock.nowMs(), SHORTEST_WAIT_MS)
    return 'cooling'
  }

  #begin(choice: Choice, attempt = this.#attemptOf(choice)): Choice {
    this.#tried.push(choice)
    this.#attempt = attempt
    return choice
  }

  #attemptOf(choice: Choice): BackendAttempt {
    return {
      slot: this.#slotOf(choice),
      model: this.#modelOf(choice),
      hasCredential: choice.backend.hasCredential,
      canCool: this.#canCool,
      isAlone: this.#isAlone,
      startedAtMs: this.#parts.clock.nowMs(),
      probe: 0,
    }
  }

  /** The same backend is tried again only with another model. */
  #isUntried(choice: Choice): boolean {
    return !this.#tried.some((tried) => tried.backend.name === choice.backend.name && this.#modelOf(tried) === this.#modelOf(choice))
  }

  #standing(choice: Choice): ReturnType<BackendHealth['standing']> {
    return this.#parts.health.standing(this.#slotOf(choice), this.#modelOf(choice), this.#isAlone)
  }

  #slotOf({ backend }: Choice): number {
    return this.#parts.slots.get(backend.name)!
  }

  #modelOf({ model }: Choice): string | undefined {
    return model ?? this.#model
  }
}

/** Returns what a status says against a backend; undefined if it says nothing. */
export function refusalOrOutage(status: number): CoolingReason | undefined {
  if (status >= 500) return '5xx'
  return status === 429 || status === 401 || status === 402 || status === 403 ? status : undefined
}

/** Returns the text that requests with the same values share. */
export function stickyKey(values: readonly string[] | undefined): string | undefined {
  return values && JSON.stringify(values)
}

/** Of the choices that a request with this key has, it goes to the one with the highest score. */
export function stickyScore(stickTo: string, choice: RouteChoice): number {
  return scoreOf(choice, evenHash(stickTo, choice))
}

function scoreOf({ weight }: RouteChoice, even: number): number {
  return weight / -Math.log(Math.max(even, Number.MIN_VALUE))
}

// The key is fixed, so that all instances of a fleet, and the next process, choose alike.
const hash = new HalfSipHash([0x65646765, 0x726f7574])
const subject = new SubjectWords()

/** Returns a number between 0 and 1 that depends on the key and the choice alone. */
function evenHash(key: string, { backend, model }: RouteChoice): number {
  subject.clear()
  subject.addText(key)
  subject.addText(backend.name)
  subject.addText(model ?? '')
  hash.digest(subject.words, subject.length)
  return ((hash.low >>> 0) + 0.5) / 2 ** 32
}
