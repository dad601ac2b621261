import { type BodyNeed, type DecideOptions, NO_OPTIONS } from './decide-options.ts'
import type { Decision, Refused, Rejected } from './decision.ts'
import type { Evaluator } from './evaluator.ts'
import type { ExplainedPolicy } from './questions/explanation.ts'
import type { Run } from './run.ts'

/**
 * A decision in several steps, one after the other. All steps use the plan that was active when the request arrived; it is routed once, and
 * each descriptor is read once. An evaluation that is never decided can simply be dropped. One that `looks` has the same steps, takes nothing, and
 * can be described at their end.
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

  /** Rejects what the head alone can reject, and then the evaluation is over. Takes nothing. */
  precheck(): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const run = this.#beginStep()
    const rejection = this.#evaluator.precheck(run)
    if (rejection instanceof Promise) return rejection.then((later) => this.#afterPrecheck(run, later) as Rejected | undefined)
    return this.#afterPrecheck(run, rejection)
  }

  /** Decides and takes. The last step. */
  decide(options: DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    const run = this.#beginStep()
    const decision = this.#evaluator.decide(run, options)
    if (run.seen === undefined) return decision
    return decision instanceof Promise ? decision.then((later) => this.#afterLook(run, later)) : this.#afterLook(run, decision)
  }

  /**
   * Of one that looks, after its other steps: every policy, rule, descriptor and counter involved. In small steps, for a bundle with thousands
   * of policies. `options`: for rules that no decision came to. The last step: the run belongs to what is returned.
   */
  describe(options: DecideOptions = NO_OPTIONS): Iterable<ExplainedPolicy> | Promise<Iterable<ExplainedPolicy>> {
    return this.#evaluator.describe(this.#beginStep(), options)
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

  #afterPrecheck(run: Run, rejection: Rejected | Refused | undefined): Rejected | Refused | undefined {
    if (rejection === undefined || run.seen !== undefined) this.#run = run
    return rejection
  }
}
