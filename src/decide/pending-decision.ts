import type { Clock } from '../clock.ts'
import type { Decision } from '../engine/decision.ts'
import type { Evaluation } from '../engine/evaluation.ts'
import type { BodyFacts, BodyNeed } from '../engine/question.ts'
import type { DecisionAnswer } from './decision-answer.ts'
import type { DecisionRecorder } from './decision-recorder.ts'

/** A request on its way to a decision in several steps. Like the pipeline, it never throws and never rejects. */
export class PendingDecision {
  readonly #recorder: DecisionRecorder
  readonly #evaluation: Evaluation
  readonly #clock: Clock
  readonly #isDebug: boolean
  #startMs: number

  constructor(recorder: DecisionRecorder, evaluation: Evaluation, clock: Clock, isDebug: boolean) {
    this.#recorder = recorder
    this.#evaluation = evaluation
    this.#clock = clock
    this.#isDebug = isDebug
    this.#startMs = clock.nowMs()
  }

  /** Whether the body must be read before `decide`. */
  needsBody(): BodyNeed | DecisionAnswer {
    try {
      return this.#evaluation.needsBody()
    } catch (error) {
      return this.#recorder.fail(error)
    }
  }

  /** What the head alone decides, undefined where that is nothing. Nothing is taken. */
  async precheck(): Promise<DecisionAnswer | undefined> {
    try {
      const decision = await this.#evaluation.precheck()
      return decision && this.#conclude(decision)
    } catch (error) {
      return this.#recorder.fail(error)
    }
  }

  /** Takes. It is the last step, and returns at once where the engine does. */
  decide(): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#decide(undefined)
  }

  /** The same with what the body says of its cost. The time that it took to come is no time of the decision. */
  decideWithBody(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    this.#startMs = this.#clock.nowMs()
    return this.#decide(body)
  }

  #decide(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    try {
      const decision = this.#evaluation.decide({ body })
      if (!(decision instanceof Promise)) return this.#conclude(decision)
      return decision.then((later) => this.#conclude(later)).catch((error: unknown) => this.#recorder.fail(error))
    } catch (error) {
      return this.#recorder.fail(error)
    }
  }

  #conclude(decision: Decision): DecisionAnswer {
    return this.#recorder.conclude(decision, this.#startMs, this.#isDebug)
  }
}
