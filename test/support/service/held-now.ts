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

  /** Lets so much pass every five milliseconds until this is there. What looks at the time now and then sees no more than its part at once. */
  async passUntil<Result>(done: Promise<Result>, stepMs = 25): Promise<Result> {
    let isDone = false
    void done.finally(() => {
      isDone = true
    })
    for (; !isDone; await sleep(5)) this.advance(stepMs)
    return done
  }

  /** Time passes by itself again. */
  readonly letGo: () => void
}
