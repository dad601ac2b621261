import { setTimeout as sleep } from 'node:timers/promises'
import { Caller } from './caller.ts'
import type { FleetLimit } from './fleet-limit.ts'

/** A load that was held up by more goes on from there, and does not make up for it. */
const MAX_LAG_MS = 20

/** So many questions a second to one instance, spread evenly, from a few callers; as many as the machine can do. */
export class SteadyLoad {
  readonly #gapMs: number
  #dueMs = performance.now()
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, limit: FleetLimit, perSecond: number, callers = 4) {
    this.#gapMs = 1000 / perSecond
    this.#dueMs += Math.random() * this.#gapMs
    this.#lanes = Array.from({ length: callers }, () => this.#run(new Caller(port), limit))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(caller: Caller, limit: FleetLimit): Promise<void> {
    while (!this.#isOver) {
      const dueMs = Math.max(this.#dueMs, performance.now() - MAX_LAG_MS)
      this.#dueMs = dueMs + this.#gapMs
      const earlyMs = dueMs - performance.now()
      if (earlyMs > 0) await sleep(earlyMs)
      await limit.askedBy(caller)
    }
    caller.close()
  }
}
