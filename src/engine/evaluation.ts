import type { CallerVerdict } from '../request/caller.ts'
import { type BodyNeed, type DecideOptions, NO_OPTIONS } from './decide-options.ts'
import type { Decision, Refused, Rejected } from './decision.ts'
import type { Evaluator } from './evaluator.ts'
import type { ExplainedPolicy } from './explain/explanation.ts'
import type { Run } from './run.ts'

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
