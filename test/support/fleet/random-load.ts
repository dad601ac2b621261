import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../random/random.ts'
import { Caller } from './caller.ts'
import type { FleetLimit } from './fleet-limit.ts'

const LONGEST_RUNS = [2, 20, 100]
const LONGEST_THOUGHTS_MS = [0, 20, 100, 400]

/** Callers of one instance who ask about one limit for a while, think for a while, and turn to another. */
export class RandomLoad {
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, limits: readonly FleetLimit[], random: Random, callers = 2) {
    this.#lanes = Array.from({ length: callers }, () => this.#run(new Caller(port), limits, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(caller: Caller, limits: readonly FleetLimit[], random: Random): Promise<void> {
    while (!this.#isOver) {
      const limit = random.oneOf(limits)
      for (let left = random.below(random.oneOf(LONGEST_RUNS)); left >= 0 && !this.#isOver; left--) await limit.askedBy(caller)
      await sleep(random.next() * random.oneOf(LONGEST_THOUGHTS_MS))
    }
    caller.close()
  }
}
