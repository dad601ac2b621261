import type { Identification } from '../request/descriptors.ts'
import { Run } from './run.ts'

/** A store that answers at once needs one. More than these are under way together only for as long as a store is slow. */
const MAX_IDLE = 64

/** Runs at rest: they hold nothing but room for the next decision. */
export class RunPool {
  readonly #identification: Identification
  readonly #idle: Run[] = []

  constructor(identification: Identification) {
    this.#identification = identification
  }

  take(): Run {
    return this.#idle.pop() ?? new Run(this.#identification)
  }

  giveBack(run: Run): void {
    run.end()
    if (this.#idle.length < MAX_IDLE) this.#idle.push(run)
  }
}
