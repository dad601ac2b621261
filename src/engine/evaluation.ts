import type { Decision, Refused, Rejected } from './decision.ts'
import type { Evaluator } from './evaluator.ts'
import type { Explanation, StepwiseExplanation } from './explanation.ts'
import { type BodyNeed, type DecideOptions, NO_OPTIONS } from './question.ts'
import type { Run } from './run.ts'

/**
 * A decision in several steps, one after the other. All steps use the plan that was active when the request arrived; it is routed once, and
 * each descriptor is read once. An evaluation that is never decided can simply be dropped.
 */
export class Evaluation {
  readonly #evaluator: Evaluator
  /** Undefined during a step and after the last one: the run is then used for other requests. */
  #run: Run | undefined

  constructor(evaluator: Evaluator, run: Run) {
    this.#evaluator = evaluator
    this.#run = run
  }

  /** Whether the body must be read before the request can be decided. `nowMs`: the clock's time, where the caller has read it already. */
  needsBody(nowMs?: number): BodyNeed {
    const run = this.#beginStep()
    const need = this.#evaluator.needsBody(run, nowMs)
    this.#run = run
    return need
  }

  /** After `needsBody`: who sends the body, as the limit keys of the rules that need it say. Empty where they say nothing. */
  bodyCaller(): readonly string[] {
    return this.#run?.bodyCaller() ?? []
  }

  /** Rejects what the head alone can reject, and then the evaluation is over. Takes nothing. `isForOperator`: it is not counted either. */
  precheck(isForOperator = false): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const run = this.#beginStep()
    const rejection = this.#evaluator.precheck(run, isForOperator)
    if (rejection instanceof Promise) return rejection.then((later) => this.#afterPrecheck(run, later) as Rejected | undefined)
    return this.#afterPrecheck(run, rejection)
  }

  /** Decides and takes. The last step. */
  decide(options: DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    return this.#evaluator.decide(this.#beginStep(), options)
  }

  /** What `decide` would return now, with every policy, rule, descriptor and counter involved. Takes nothing. */
  explain(options: DecideOptions = NO_OPTIONS): Explanation | Promise<Explanation> {
    const run = this.#beginStep()
    const explanation = this.#evaluator.explain(run, options)
    if (explanation instanceof Promise) return explanation.then((later) => this.#afterExplain(run, later))
    return this.#afterExplain(run, explanation)
  }

  /** The same in small steps, for a bundle with thousands of policies. The last step: the run belongs to the explanation. */
  explainStepwise(options: DecideOptions = NO_OPTIONS): StepwiseExplanation | Promise<StepwiseExplanation> {
    return this.#evaluator.explain(this.#beginStep(), options)
  }

  #beginStep(): Run {
    const run = this.#run
    if (run === undefined) throw new Error('this evaluation is over, or a step of it is still pending')
    this.#run = undefined
    run.restart()
    return run
  }

  #afterExplain(run: Run, { decision, policies }: StepwiseExplanation): Explanation {
    const all = [...policies]
    this.#run = run
    return { decision, policies: all }
  }

  #afterPrecheck(run: Run, rejection: Rejected | Refused | undefined): Rejected | Refused | undefined {
    if (rejection === undefined) this.#run = run
    return rejection
  }
}
