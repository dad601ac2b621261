import type { Owner } from '../support/service/running.ts'

/**
 * Ends what a scenario has started. An interrupted test is over for vitest while its code still runs, so what that code starts
 * afterwards is ended as soon as it is there.
 */
export class CleanUp implements Owner {
  readonly #ends: (() => void | Promise<void>)[] = []
  #isOver = false

  onTestFinished(end: () => void | Promise<void>): void {
    if (this.#isOver) void end()
    else this.#ends.push(end)
  }

  /** The last that was started goes first. */
  async run(): Promise<void> {
    this.#isOver = true
    for (const end of this.#ends.splice(0).reverse()) await end()
  }
}
