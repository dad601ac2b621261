import type { RequestFacts } from '../costs/cost.ts'
import type { BodyFacts, BodyNeed } from '../engine/decide-options.ts'
import type { Decision, RouteProblem } from '../engine/decision.ts'
import type { ChosenRoute, Evaluation } from '../engine/evaluation.ts'
import type { Reason } from '../engine/reasons.ts'
import type { PlannedRoute } from '../policy/routes/routing.ts'
import { answerOf, type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

/** The steps of one decision. Implementations choose whether they take, and whether they count and log. */
export interface DecisionSteps {
  /** Finds out who sends the request. Returns the answer if nothing else matters, otherwise undefined. Takes nothing. */
  identify(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined>
  /** Whether the body must be read before `route`; an answer if that failed. */
  routeNeedsBody(): boolean | DecisionAnswer
  /** Finds where the request goes. Returns the answer if it can go nowhere, otherwise undefined. Takes nothing. */
  route(body: UnreadBody, facts: BodyFacts): DecisionAnswer | undefined
  /** Whether `route` has found a route, so that the request does not go to `EDGE_BACKEND_URL`. */
  readonly isRouted: boolean
  /** Whether the body must be read before the request can be decided; an answer if that failed. */
  needsBody(): BodyNeed | DecisionAnswer
  /** Returns the answer if the head alone decides it, otherwise undefined. Takes nothing. */
  precheck(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined>
  /** Decides as the last step, without a body. */
  decide(): DecisionAnswer | Promise<DecisionAnswer>
  /** Decides as the last step, with the facts from the body. */
  decideWithBody(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer>
  /** Ends the steps if the body keeps the request from being decided. */
  refuse(reason: Reason): DecisionAnswer
}

/** A request's body, which is read only if a rule needs it. */
export interface UnreadBody {
  /** Length stated in the head. */
  readonly contentLength: number | undefined
  /**
   * Reads the body. `isEnforced` means that the request is refused if this fails. Unless `isRouted`, the request goes to `EDGE_BACKEND_URL`, whose path may
   * name a model and the API. May be called again if that has turned out to be otherwise.
   */
  read(isEnforced: boolean, isRouted: boolean): Promise<ReadCost>
  /** Returns why the request cannot be sent as this route says; undefined if it can. The body has been read if the route needs it. */
  problemWith?(route: PlannedRoute): RouteProblem | undefined
}

/** The facts from a body that determine its cost, or why they cannot be known, or that its sender is gone. */
export type ReadCost = NonNullable<RequestFacts['body']> | Reason | 'gone'

/**
 * The one way to decide in several steps. First comes who sends the request. Whatever the head alone decides is decided before the body is read, and only an enforcing rule can refuse a
 * request for its body. Returns a promise only if the body is read or a step returns one. Returns undefined if the sender is gone, in which case nothing
 * was taken.
 */
export function decideInSteps(
  steps: DecisionSteps,
  body: UnreadBody,
  maxBodyBytes: number,
): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined> {
  const answer = steps.identify()
  if (answer instanceof Promise) return answer.then((later) => later ?? decideIdentified(steps, body, maxBodyBytes))
  return answer ?? decideIdentified(steps, body, maxBodyBytes)
}

function decideIdentified(
  steps: DecisionSteps,
  body: UnreadBody,
  maxBodyBytes: number,
): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined> {
  const isRoutedByBody = steps.routeNeedsBody()
  if (typeof isRoutedByBody === 'object') return isRoutedByBody
  const unrouted = isRoutedByBody ? undefined : steps.route(body, undefined)
  if (unrouted !== undefined) return unrouted
  const need = steps.needsBody()
  if (typeof need !== 'string') return need
  if (need === 'no' && !isRoutedByBody) return steps.decide()
  const isEnforced = need === 'must' || isRoutedByBody
  if (isEnforced && (body.contentLength ?? 0) > maxBodyBytes) return steps.refuse('body_too_large')
  const rejection = steps.precheck()
  if (rejection instanceof Promise) return rejection.then((later) => later ?? decideByBody(steps, body, isEnforced, isRoutedByBody))
  return rejection ?? decideByBody(steps, body, isEnforced, isRoutedByBody)
}

async function decideByBody(
  steps: DecisionSteps,
  body: UnreadBody,
  isEnforced: boolean,
  isRoutedByBody: boolean,
): Promise<DecisionAnswer | undefined> {
  const cost = await body.read(isEnforced, isRoutedByBody || steps.isRouted)
  if (cost === 'gone') return undefined
  if (isEnforced && typeof cost === 'string') return steps.refuse(cost)
  const facts = factsOf(cost)
  if (!isRoutedByBody) return steps.decideWithBody(facts)
  const unrouted = steps.route(body, facts)
  if (unrouted !== undefined || steps.isRouted) return unrouted ?? steps.decideWithBody(facts)
  return decideByBody(steps, body, isEnforced, false)
}

/** Returns the facts from a body. If it cannot be read, rules in shadow mode go without an estimate, as if there were no body. */
export function factsOf(cost: ReadCost | undefined): BodyFacts {
  return typeof cost !== 'string' || cost === 'repeated_descriptor' ? cost : undefined
}

/** Returns what ends a request that cannot be routed, or where it goes: undefined if that is `EDGE_BACKEND_URL`. */
export function routeOf(
  evaluation: Evaluation,
  hasLastResort: boolean,
  body: UnreadBody,
  facts: BodyFacts,
): ChosenRoute | Decision | undefined {
  if (hasLastResort && !evaluation.hasRoutes) return undefined
  const chosen = evaluation.route(facts)
  if (chosen === undefined && hasLastResort) return undefined
  const problem = typeof chosen === 'object' ? body.problemWith?.(chosen.route) : (chosen ?? 'no_route')
  return problem === undefined ? (chosen as ChosenRoute) : evaluation.refuseUnrouted(problem, facts)
}

/** The steps of an evaluation of the proxy that is neither counted nor logged. */
export class UnrecordedSteps implements DecisionSteps {
  readonly #evaluation: Evaluation
  readonly #hasLastResort: boolean
  isRouted = false

  constructor(evaluation: Evaluation, hasLastResort: boolean) {
    this.#evaluation = evaluation
    this.#hasLastResort = hasLastResort
  }

  routeNeedsBody(): boolean {
    return this.#evaluation.routeNeedsBody()
  }

  route(body: UnreadBody, facts: BodyFacts): DecisionAnswer | undefined {
    const found = routeOf(this.#evaluation, this.#hasLastResort, body, facts)
    if (found !== undefined && 'action' in found) return answerOf(found, true)
    this.isRouted = found !== undefined
    return undefined
  }

  async identify(): Promise<DecisionAnswer | undefined> {
    const ended = await this.#evaluation.identify()
    return ended && answerOf(ended, true)
  }

  needsBody(): BodyNeed {
    return this.#evaluation.needsBody()
  }

  async precheck(): Promise<DecisionAnswer | undefined> {
    const rejection = await this.#evaluation.precheck()
    return rejection && answerOf(rejection, true)
  }

  decide(): Promise<DecisionAnswer> {
    return this.decideWithBody(undefined)
  }

  async decideWithBody(body: BodyFacts): Promise<DecisionAnswer> {
    return answerOf(await this.#evaluation.decide({ body }), true)
  }

  refuse(reason: Reason): DecisionAnswer {
    return refusedAnswer(reason, true)
  }
}
