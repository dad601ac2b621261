import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../support/random/random.ts'
import { DecisionClient } from './decision-client.ts'
import type { Team } from './teams.ts'

const LONGEST_PIPELINES = [1, 1, 4, 16]
const LONGEST_THOUGHTS_MS = [0, 5, 50, 400]
/** A lull takes up the room of as many questions. */
const LULL_MS = 600

/** Clients that ask about teams: on kept and on fresh connections, one by one and in pipelines, in bursts and with lulls. */
export class DecisionLoad {
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(ports: readonly number[], teams: readonly Team[], random: Random, lanes: number) {
    this.#lanes = Array.from({ length: lanes }, () => this.#run(ports, teams, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(ports: readonly number[], teams: readonly Team[], random: Random): Promise<void> {
    const kept = ports.map((port) => new DecisionClient(port))
    while (!this.#isOver) {
      const place = random.below(ports.length)
      const isFresh = random.below(4) === 0
      const client = isFresh ? new DecisionClient(ports[place]!) : kept[place]!
      await this.#ask(client, random.oneOf(teams), random)
      if (isFresh) client.close()
      await sleep(random.below(20) === 0 ? LULL_MS : random.next() * random.oneOf(LONGEST_THOUGHTS_MS))
    }
    for (const client of kept) client.close()
  }

  async #ask(client: DecisionClient, team: Team, random: Random): Promise<void> {
    const caller = random.oneOf(team.callers)
    const count = 1 + random.below(random.oneOf(LONGEST_PIPELINES))
    if (!team.leaves || random.below(3) > 0) return void (await caller.askBy(client, count))
    if (await client.abandon(caller.bytes(count), random.below(2) === 0)) caller.seen.unknown += count
  }
}
