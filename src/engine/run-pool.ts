import type { Identification } from '../request/descriptors.ts'
import type { ActivePlan } from './active-plan.ts'
import { Run } from './run.ts'

/** A store that answers at once needs one. More than these are under way together only for as long as a store is slow. */
const MAX_IDLE = 64

/** Runs at rest, of one plan: they hold nothing of any request. Those of an earlier plan are let go of. */
export class RunPool {
  readonly #identification: Identification
  readonly #idle: Run[] = []
  #active: ActivePlan | undefined

  constructor(identification: Identification) {
    this.#identification = identification
  }

  /** From now on the runs are of this plan. */
  turnTo(active: ActivePlan | undefined): void {
    if (active === this.#active) return
    this.#active = active
    this.#idle.length = 0
  }

  take(): Run {
    return this.#idle.pop() ?? new Run(this.#identification)
  }

  giveBack(run: Run): void {
    run.end()
    if (run.active === this.#active && this.#idle.length < MAX_IDLE) this.#idle.push(run)
  }
}
