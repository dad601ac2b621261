import type { RequestFacts } from '../costs/cost.ts'
import type { RequestView } from '../request/view.ts'
import type { ActivePlan } from './active-plan.ts'
import type { Decision, Refused, Rejected } from './decision.ts'
import type { BodyNeed, Evaluator } from './evaluator.ts'

/** A request on its way to a decision that takes several steps. All of them see the plan that held when it came. */
export class Evaluation {
  readonly #evaluator: Evaluator
  readonly #active: ActivePlan
  readonly #view: RequestView
  readonly #explains: boolean

  constructor(evaluator: Evaluator, active: ActivePlan, view: RequestView, explains: boolean) {
    this.#evaluator = evaluator
    this.#active = active
    this.#view = view
    this.#explains = explains
  }

  /** Whether the body must be read before the request can be decided. */
  needsBody(): BodyNeed {
    return this.#evaluator.needsBody(this.#active, this.#view)
  }

  /** What stands against the request as far as its head tells. Nothing is taken. */
  precheck(): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    return this.#evaluator.precheck(this.#active, this.#view, this.#explains)
  }

  /** Decides and takes. `body` is what it says, if it was read. */
  decide(body?: RequestFacts['body']): Decision | Promise<Decision> {
    return this.#evaluator.decide(this.#active, this.#view, this.#explains, body)
  }
}
