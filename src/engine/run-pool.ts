import type { Identification } from '../request/descriptors.ts'
import type { ActivePlan } from './active-plan.ts'
import { Run } from './run.ts'

/** A store in memory needs one. More than this are in use only while a store is slow. */
const MAX_IDLE = 64

/** Idle runs of one plan. They keep nothing of any request. Those of an earlier plan are dropped. */
export class RunPool {
  readonly #identification: Identification
  readonly #idle: Run[] = []
  #active: ActivePlan | undefined

  constructor(identification: Identification) {
    this.#identification = identification
  }

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
