import type { Deadlines } from '../../../src/store/redis/link/call.ts'
import { until } from '../until.ts'

interface Timer {
  readonly dueMs: number
  readonly run: () => void
}

/** No server is given up before the test says so, however long a busy machine takes. */
export class HeldDeadlines implements Deadlines {
  readonly #timers = new Set<Timer>()
  #nowMs = 0

  nowMs(): number {
    return this.#nowMs
  }

  after(ms: number, run: () => void): () => void {
    const timer = { dueMs: this.#nowMs + ms, run }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Whoever was to wait for no longer than this waits no longer. */
  pass(ms: number): void {
    this.#nowMs += ms
    for (const timer of [...this.#timers].sort((a, b) => a.dueMs - b.dueMs)) {
      if (timer.dueMs <= this.#nowMs && this.#timers.delete(timer)) timer.run()
    }
  }

  /** The same, and it is done when all calls under way are given up, and before another one is sent. */
  async giveUp(ms: number): Promise<void> {
    this.pass(ms)
    // The link reads its sockets once more before it gives up.
    await new Promise(setImmediate)
  }

  /** Lets so much pass whenever something is waited for, again and again: for what is given up several times, or is yet to begin. */
  async passUntil(ms: number, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    await until(async () => {
      if (await isTrue()) return true
      if (this.#timers.size > 0) this.pass(ms)
      return false
    })
  }

  /** The same until something is over that is waited for, and returns that. */
  async passDuring<T>(ms: number, over: Promise<T>): Promise<T> {
    let isOver = false
    const noteEnd = (): void => {
      isOver = true
    }
    over.then(noteEnd, noteEnd)
    await this.passUntil(ms, () => isOver)
    return over
  }
}
