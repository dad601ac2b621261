import type { Clock } from '../clock.ts'
import type { Decision } from '../engine/decision.ts'
import type { Evaluation } from '../engine/evaluation.ts'
import type { BodyFacts, BodyNeed } from '../engine/question.ts'
import type { RequestView } from '../request/view.ts'
import type { DecisionAnswer } from './decision-answer.ts'
import type { DecisionRecorder } from './decision-recorder.ts'
import type { Door } from './door.ts'
import type { NoteDecided } from './note-decided.ts'

export interface PendingDecisionParts {
  readonly recorder: DecisionRecorder
  readonly door: Door
  readonly evaluation: Evaluation
  readonly clock: Clock
  /** Whether a debug session asks. */
  readonly isDebug: boolean
  readonly view: RequestView
  readonly noteDecided: NoteDecided | undefined
}

/** A request on its way to a decision in several steps. Like the pipeline, it never throws and never rejects. */
export class PendingDecision {
  readonly #parts: PendingDecisionParts
  #startMs: number

  constructor(parts: PendingDecisionParts) {
    this.#parts = parts
    this.#startMs = parts.clock.nowMs()
  }

  /** Whether the body must be read before `decide`. */
  needsBody(): BodyNeed | DecisionAnswer {
    try {
      return this.#parts.evaluation.needsBody()
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** What the head alone decides, undefined where that is nothing. Nothing is taken. */
  async precheck(): Promise<DecisionAnswer | undefined> {
    try {
      const decision = await this.#parts.evaluation.precheck()
      return decision && this.#conclude(decision, undefined)
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Takes. It is the last step, and returns at once where the engine does. */
  decide(): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#decide(undefined)
  }

  /** The same with what the body says of its cost. The time that it took to come is no time of the decision. */
  decideWithBody(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    this.#startMs = this.#parts.clock.nowMs()
    return this.#decide(body)
  }

  #decide(body: BodyFacts): DecisionAnswer | Promise<DecisionAnswer> {
    try {
      const decision = this.#parts.evaluation.decide({ body })
      if (!(decision instanceof Promise)) return this.#conclude(decision, body)
      return decision.then((later) => this.#conclude(later, body)).catch((error: unknown) => this.#fail(error))
    } catch (error) {
      return this.#fail(error)
    }
  }

  #conclude(decision: Decision, body: BodyFacts): DecisionAnswer {
    const { recorder, door, isDebug, view, noteDecided } = this.#parts
    const answer = recorder.conclude(door, decision, this.#startMs, isDebug)
    if (decision.action !== 'refuse') noteDecided?.(view, body)
    return answer
  }

  #fail(error: unknown): DecisionAnswer {
    const { recorder, door } = this.#parts
    return recorder.fail(door, error)
  }
}
