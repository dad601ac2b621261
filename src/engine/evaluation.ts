import type { Decision, Refused, Rejected } from './decision.ts'
import type { BodyNeed, Evaluator } from './evaluator.ts'
import type { Explanation } from './explanation.ts'
import { type DecideOptions, NO_OPTIONS } from './question.ts'
import type { Run } from './run.ts'

/**
 * A request on its way to a decision that takes several steps, one after the other. All of them see the plan that held when
 * it came; it was routed once, and each descriptor is read once. An evaluation that is never decided is simply let go of.
 */
export class Evaluation {
  readonly #evaluator: Evaluator
  /** Undefined while a step is under way and after the last one: a run goes on to other requests. */
  #run: Run | undefined

  constructor(evaluator: Evaluator, run: Run) {
    this.#evaluator = evaluator
    this.#run = run
  }

  /** Whether the body must be read before the request can be decided. */
  needsBody(): BodyNeed {
    const run = this.#beginStep()
    const need = this.#evaluator.needsBody(run)
    this.#run = run
    return need
  }

  /** What stands against the request as far as its head tells; then the evaluation is over. Nothing is taken. */
  precheck(): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const run = this.#beginStep()
    const objection = this.#evaluator.precheck(run)
    if (objection instanceof Promise) return objection.then((later) => this.#afterPrecheck(run, later) as Rejected | undefined)
    return this.#afterPrecheck(run, objection)
  }

  /** Decides and takes. It is the last step. */
  decide(options: DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    return this.#evaluator.decide(this.#beginStep(), options)
  }

  /** What `decide` would return now, and every policy, rule, descriptor and counter that it would go by. Nothing is taken. */
  explain(options: DecideOptions = NO_OPTIONS): Explanation | Promise<Explanation> {
    const run = this.#beginStep()
    const explanation = this.#evaluator.explain(run, options)
    if (explanation instanceof Promise) return explanation.then((later) => this.#afterExplain(run, later))
    return this.#afterExplain(run, explanation)
  }

  #beginStep(): Run {
    const run = this.#run
    if (run === undefined) throw new Error('this evaluation is over, or a step of it is still under way')
    this.#run = undefined
    run.restart()
    return run
  }

  #afterExplain(run: Run, explanation: Explanation): Explanation {
    this.#run = run
    return explanation
  }

  #afterPrecheck(run: Run, objection: Rejected | Refused | undefined): Rejected | Refused | undefined {
    if (objection === undefined) this.#run = run
    return objection
  }
}
