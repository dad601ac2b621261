import { setTimeout as sleep } from 'node:timers/promises'
import { vi } from 'vitest'
import { type Owner, thisTest } from './running.ts'

/**
 * What this process reads from `performance.now()`, by which budgets of time and timeouts are measured, moves only when the test moves it,
 * or by `stepMs` with each reading. A machine that is busy is then no slower than any other.
 */
export class HeldNow {
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

  /** Lets time pass, faster than it does, until this is there. */
  async passUntil<Result>(done: Promise<Result>): Promise<Result> {
    let isDone = false
    void done.finally(() => {
      isDone = true
    })
    for (; !isDone; await sleep(5)) this.advance(25)
    return done
  }

  /** Time passes by itself again. */
  readonly letGo: () => void
}
