import type { PlannedRoute, Routing } from '../policy/routes/routing.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { type BodyFacts, type BodyNeed, type DecideOptions, NO_OPTIONS } from './decide-options.ts'
import type { Decision, Refused, Rejected, RouteProblem } from './decision.ts'
import type { Evaluator } from './evaluator.ts'
import type { ExplainedPolicy } from './explain/explanation.ts'
import type { Run } from './run.ts'

/** The route of a request. */
export interface ChosenRoute {
  readonly routing: Routing
  readonly route: PlannedRoute
  /** The values by which the request sticks to a backend; undefined if the route has no `stick_to`, or the request lacks one of its keys. */
  readonly stickyValues: readonly string[] | undefined
}

/** Where a request with a route was sent. */
export interface SentRequest {
  /** The backend whose answer the client gets; undefined if none answered. */
  readonly answeredBy: string | undefined
  /** All calls in order, each with its backend and its outcome: a status, or what happened instead. */
  readonly calls: readonly SentCall[]
  /** The model that the last call asked for, if it is not the one that the client asked for. */
  readonly modelSent: string | undefined
}

interface SentCall {
  readonly backend: string
  readonly outcome: number | string
}

/**
 * A decision in several consecutive steps. All steps use the plan that was active when the request arrived; the request is routed once, and each descriptor
 * is read once. An evaluation that is never decided can simply be dropped. One that only looks has the same steps, takes nothing, and can be described at
 * the end.
 */
export class Evaluation {
  readonly #evaluator: Evaluator
  /** Undefined during a step and after the last one, when the run may serve other requests. */
  #run: Run | undefined

  constructor(evaluator: Evaluator, run: Run) {
    this.#evaluator = evaluator
    this.#run = run
  }

  /**
   * Finds out who sends the request, if the bundle says who is known. This is the first step. Returns what ends the evaluation, and a promise only while a
   * credential waits for its keys.
   */
  identify(nowMs?: number): Rejected | Refused | undefined | Promise<Rejected | Refused | undefined> {
    if (this.#run?.active?.callers === undefined) return undefined
    const run = this.#beginStep()
    const ended = this.#evaluator.identify(run, nowMs)
    return ended instanceof Promise ? ended.then((later) => this.#afterCheck(run, later)) : this.#afterCheck(run, ended)
  }

  /** Whether the body must be read before the request can be decided. `nowMs` is the clock's time, if the caller has already read it. */
  needsBody(nowMs?: number): BodyNeed {
    const run = this.#beginStep()
    const need = this.#evaluator.needsBody(run, nowMs)
    this.#run = run
    return need
  }

  /** Whether the body must be read before `route`, or for the route itself. False if the bundle has no routes. */
  routeNeedsBody(): boolean {
    return this.hasRoutes && (this.#asRouted(undefined, true, (routing, run) => routing.needsBody(run)) ?? false)
  }

  /**
   * Returns the route of the request, by the facts from its body if it was read; undefined if no route covers it, or the bundle has none. It takes nothing,
   * and comes before `decide`, which then charges money for the dearest model of the route. `repeated_descriptor`: a value that decides can be read in
   * more than one way.
   */
  route(body?: BodyFacts): ChosenRoute | 'repeated_descriptor' | undefined {
    return this.#asRouted(body, false, (routing, run) => {
      const route = routing.routeOf(run)
      if (typeof route !== 'object') return route
      const { models, keepsModel } = route
      if (models.length > 0) run.sendableModels = keepsModel ? [undefined, ...models] : models
      return { routing, route, stickyValues: stickyValues(route, run) }
    })
  }

  /** Whether the bundle has routes. */
  get hasRoutes(): boolean {
    return this.#run?.active?.plan.routing !== undefined
  }

  /** Ends a request that cannot be routed, or not as its route says: a block that covers it comes first. Takes nothing. */
  refuseUnrouted(reason: RouteProblem, body?: BodyFacts): Rejected | Refused {
    const run = this.#beginStep()
    const ended = this.#evaluator.refuseUnrouted(run, reason, body)
    if (run.seen !== undefined) this.#run = run
    return ended
  }

  /** Identifies the sender of the body by the limit keys of the rules that need it. Call it after `needsBody`. Empty if these keys have no values. */
  bodyCaller(): readonly string[] {
    return this.#run?.bodyCaller() ?? []
  }

  /** Rejects what can be rejected by the head alone, which ends the evaluation. Takes nothing. */
  precheck(): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const run = this.#beginStep()
    const rejection = this.#evaluator.precheck(run)
    if (rejection instanceof Promise) return rejection.then((later) => this.#afterCheck(run, later) as Rejected | undefined)
    return this.#afterCheck(run, rejection)
  }

  /** Who sends the request, once it was found out. */
  get caller(): CallerVerdict | undefined {
    return this.#run?.caller
  }

  /** Decides and takes. This is the last step, unless the evaluation only looks. */
  decide(options: DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    const run = this.#beginStep()
    const decision = this.#evaluator.decide(run, options)
    if (run.seen === undefined) return decision
    return decision instanceof Promise ? decision.then((later) => this.#afterLook(run, later)) : this.#afterLook(run, decision)
  }

  /**
   * Describes every policy, rule, descriptor and counter involved, after the other steps of an evaluation that only looks. It does so lazily, because a
   * bundle may have thousands of policies. `options` are for rules that no decision reached. This is the last step: the run belongs to the result.
   */
  describe(options: DecideOptions = NO_OPTIONS): Iterable<ExplainedPolicy> | Promise<Iterable<ExplainedPolicy>> {
    return this.#evaluator.describe(this.#beginStep(), options)
  }

  /** Rules have their own view of a body that was not read, which stays as it is. */
  #asRouted<Result>(body: BodyFacts, isBodyUnread: boolean, look: (routing: Routing, run: Run) => Result): Result | undefined {
    const routing = this.#run?.active?.plan.routing
    if (routing === undefined) return undefined
    const run = this.#beginStep()
    const before = run.isBodyUnread
    run.setBody(body)
    run.isBodyUnread = isBodyUnread
    const result = look(routing, run)
    run.isBodyUnread = before
    this.#run = run
    return result
  }

  #beginStep(): Run {
    const run = this.#run
    if (run === undefined) throw new Error('this evaluation is over, or a step of it is still pending')
    this.#run = undefined
    run.restart()
    return run
  }

  #afterLook(run: Run, decision: Decision): Decision {
    this.#run = run
    return decision
  }

  #afterCheck(run: Run, rejection: Rejected | Refused | undefined): Rejected | Refused | undefined {
    if (rejection === undefined || run.seen !== undefined) this.#run = run
    return rejection
  }
}

function stickyValues({ stickTo }: PlannedRoute, run: Run): readonly string[] | undefined {
  const values = stickTo.map(({ keyIndex }) => run.valueOf(keyIndex)).filter((value) => typeof value === 'string')
  return values.length === 0 || values.length < stickTo.length ? undefined : values
}
