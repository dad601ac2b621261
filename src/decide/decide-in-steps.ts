import type { RequestFacts } from '../costs/cost.ts'
import type { BodyFacts, BodyNeed } from '../engine/decide-options.ts'
import type { Evaluation } from '../engine/evaluation.ts'
import type { Reason } from '../engine/reasons.ts'
import { answerOf, type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

/** The steps of one decision. Whether they take, and who is told of it, is their own business. */
export interface DecisionSteps {
  /** Whether the body must be read before the request can be decided; an answer where nothing more can be asked. */
  needsBody(): BodyNeed | DecisionAnswer
  /** What the head alone decides, undefined where that is nothing. Nothing is taken. */
  precheck(): DecisionAnswer | undefined | Promise<DecisionAnswer | undefined>
  /** The last step, where no body was read. */
  decide(): DecisionAnswer | Promise<DecisionAnswer>
  /** The last step, with what the body says of its cost. */
  decideWithBody(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer>
  /** The last step, where the body keeps the request from being decided. */
  refuse(reason: Reason): DecisionAnswer
}

/** A request's body, which is read only if a rule needs it. */
export interface UnreadBody {
  /** As its head says. */
  readonly contentLength: number | undefined
  /** `isEnforced`: whether the request is refused where this fails. */
  read(isEnforced: boolean): Promise<ReadCost>
}

/** What a body says of its cost, why that cannot be told, or that its sender is gone. */
export type ReadCost = NonNullable<RequestFacts['body']> | Reason | 'gone'

/**
 * The way of a request to its decision, for all who decide in several steps. What the head alone decides is decided before the body is read, and
 * only a rule that enforces can refuse a request for its body. Returns at once where no body is read and the store answers at once; undefined where
 * the sender went away meanwhile: then nothing was taken.
 */
export function decideInSteps(
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

/** Where a body cannot be read, rules in shadow mode do without an estimate, as if there were no body. */
export function factsOf(cost: ReadCost | undefined): BodyFacts {
  return typeof cost !== 'string' || cost === 'repeated_descriptor' ? cost : undefined
}

/** The steps of an evaluation that nobody counts or logs. */
export class UnrecordedSteps implements DecisionSteps {
  readonly #evaluation: Evaluation

  constructor(evaluation: Evaluation) {
    this.#evaluation = evaluation
  }

  needsBody(): BodyNeed {
    return this.#evaluation.needsBody()
  }

  async precheck(): Promise<DecisionAnswer | undefined> {
    const rejection = await this.#evaluation.precheck()
    return rejection && answerOf(rejection)
  }

  decide(): Promise<DecisionAnswer> {
    return this.decideWithBody(undefined)
  }

  async decideWithBody(body: BodyFacts): Promise<DecisionAnswer> {
    return answerOf(await this.#evaluation.decide({ body }))
  }

  refuse(reason: Reason): DecisionAnswer {
    return refusedAnswer(reason)
  }
}
