import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../../../src/time/clock.ts'

interface Event {
  readonly atMs: number
  readonly happen: () => void
}

/** Time that the test advances, and that stands still during real I/O. */
export class SimulatedTime implements Clock {
  #nowMs = 1_000_000
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #events: Event[] = []

  nowMs(): number {
    return this.#nowMs
  }

  wallMs(): number {
    return Date.UTC(2026, 0, 15, 12) + this.#nowMs
  }

  /** Done when that much time has passed. */
  pass(ms: number): Promise<void> {
    return new Promise((happen) => {
      const atMs = this.#nowMs + ms
      const later = this.#events.findIndex((event) => event.atMs > atMs)
      this.#events.splice(later < 0 ? this.#events.length : later, 0, { atMs, happen })
    })
  }

  /** Time does not pass meanwhile. */
  async standStillFor<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = work()
    this.#underWay.add(done)
    try {
      return await done
    } finally {
      this.#underWay.delete(done)
    }
  }

  /** Lets time pass, and all happen that is due. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms
    await this.#settle()
    while (this.#events.length > 0 && this.#events[0]!.atMs <= endMs) {
      const { atMs, happen } = this.#events.shift()!
      this.#nowMs = atMs
      happen()
      await this.#settle()
    }
    this.#nowMs = endMs
  }

  async #settle(): Promise<void> {
    await setImmediate()
    while (this.#underWay.size > 0) {
      // Asleep: who only looks again and again takes the time that a busy machine has for the work.
      await Promise.allSettled(this.#underWay)
      await setImmediate()
    }
  }
}
