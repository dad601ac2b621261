import type { RequestFacts } from '../costs/cost.ts'
import type { BodyFacts, BodyNeed } from '../engine/decide-options.ts'
import type { Evaluation } from '../engine/evaluation.ts'
import type { Reason } from '../engine/reasons.ts'
import { answerOf, type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

/** The steps of one decision. Implementations choose whether they take, and whether they count and log. */
export interface DecisionSteps {
  /** Finds out who sends the request. Returns the answer if nothing else matters, otherwise undefined. Takes nothing. */
  identify(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined>
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
  /** Reads the body. `isEnforced` means that the request is refused if this fails. */
  read(isEnforced: boolean): Promise<ReadCost>
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
  const need = steps.needsBody()
  if (typeof need !== 'string') return need
  if (need === 'no') return steps.decide()
  const isEnforced = need === 'must'
  if (isEnforced && (body.contentLength ?? 0) > maxBodyBytes) return steps.refuse('body_too_large')
  const rejection = steps.precheck()
  if (rejection instanceof Promise) return rejection.then((later) => later ?? decideByBody(steps, body, isEnforced))
  return rejection ?? decideByBody(steps, body, isEnforced)
}

async function decideByBody(steps: DecisionSteps, body: UnreadBody, isEnforced: boolean): Promise<DecisionAnswer | undefined> {
  const cost = await body.read(isEnforced)
  if (cost === 'gone') return undefined
  return isEnforced && typeof cost === 'string' ? steps.refuse(cost) : steps.decideWithBody(factsOf(cost))
}

/** Returns the facts from a body. If it cannot be read, rules in shadow mode go without an estimate, as if there were no body. */
export function factsOf(cost: ReadCost | undefined): BodyFacts {
  return typeof cost !== 'string' || cost === 'repeated_descriptor' ? cost : undefined
}

/** The steps of an evaluation of the proxy that is neither counted nor logged. */
export class UnrecordedSteps implements DecisionSteps {
  readonly #evaluation: Evaluation

  constructor(evaluation: Evaluation) {
    this.#evaluation = evaluation
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
