import { vi } from 'vitest'
import { type Owner, thisTest } from './running.ts'

/**
 * What this process reads from `performance.now()`, by which budgets of time and timeouts are measured, moves only when the test moves it,
 * or by `stepMs` with each reading. A machine that is busy is then no slower than any other. `until` has no limit meanwhile.
 */
export class HeldTime {
  #nowMs = performance.now()

  constructor(stepMs = 0, owner: Owner = thisTest) {
    const now = vi.spyOn(performance, 'now').mockImplementation(() => {
      this.#nowMs += stepMs
      return this.#nowMs
    })
    this.letGo = () => now.mockRestore()
    owner.onTestFinished(this.letGo)
  }

  advance(ms: number): void {
    this.#nowMs += ms
  }

  /** Time passes by itself again. */
  readonly letGo: () => void
}
