import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random/random.ts'
import { Caller } from './caller.ts'
import type { FleetLimit } from './fleet-limit.ts'

const CALLERS_PER_PORT = 3

/** All callers of a fleet ask a little, fall silent together, and come back all at once: what was held over the lull shows. */
export class TidalLoad {
  #isOver = false
  readonly #tides: Promise<void>

  constructor(ports: readonly number[], limit: FleetLimit, random: Random, longestLullMs: number) {
    const callers = ports.flatMap((port) => Array.from({ length: CALLERS_PER_PORT }, () => new Caller(port)))
    this.#tides = this.#run(callers, limit, random, longestLullMs)
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#tides
  }

  async #run(callers: readonly Caller[], limit: FleetLimit, random: Random, longestLullMs: number): Promise<void> {
    const all = Math.ceil((2 * limit.burst) / callers.length)
    for (let tide = 0; !this.#isOver; tide++) {
      const times = tide % 2 === 0 ? Math.ceil(random.between(0.1, 0.3) * all) : all
      await Promise.all(callers.map((caller) => askTimes(times, limit, caller)))
      await sleep(random.next() * longestLullMs)
    }
    for (const caller of callers) caller.close()
  }
}

async function askTimes(times: number, limit: FleetLimit, caller: Caller): Promise<void> {
  for (let i = 0; i < times; i++) if ((await limit.askedBy(caller)) === undefined) return
}
