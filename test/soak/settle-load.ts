import { setTimeout as sleep } from 'node:timers/promises'
import { llmRule, type PolicyText, policy } from '../support/bundles/bundles.ts'
import { Random } from '../support/random/random.ts'
import { left, reserve, settle } from '../support/settle/settling.ts'
import type { Findings } from './findings.ts'

const TOKENS = 20_000
const RESERVED = 100

/** A budget for each gateway, of which a question reserves 100. */
export function settledPolicies(): PolicyText[] {
  const config = { tokens_per_minute: 1, burst_tokens: 2 * TOKENS, tokens_per_day: TOKENS, max_completion_tokens: RESERVED }
  return [policy('settled', { selector: { pathPrefix: '/v1/chat' }, rules: [llmRule('budget', ['header:x-key'], config)] })]
}

/** A gateway that asks and settles, and what that must have cost. */
export class SettlingGateway {
  readonly name: string
  settlements = 0
  /** What was spent lies between the two; they are the same unless answers were lost. */
  #low = 0
  #high = 0
  readonly #bornDay = utcDay()

  constructor(name: string) {
    this.name = name
  }

  async ask(port: number, random: Random, findings: Findings): Promise<void> {
    const answer = await reserve({ port }, this.name).catch(() => undefined)
    if (answer === undefined) return this.#add(0, RESERVED)
    if (answer.status !== 200) return
    const token = answer.headers['x-edge-reservation']
    if (token === undefined) return findings.note(`${this.name} was given no reservation`)
    // Some never settle: what was reserved stays spent.
    if (random.below(5) === 0) return this.#add(RESERVED, RESERVED)
    const [prompt, completion] = [random.below(80), random.below(80)]
    const isUnused = random.below(4) === 0
    const cost = isUnused ? 0 : prompt + completion
    const usage = isUnused ? undefined : { prompt_tokens: prompt, completion_tokens: completion }
    await sleep(random.below(60))
    const settled = await settle(port, token, usage).catch(() => undefined)
    this.settlements++
    if (settled?.status !== 204) return this.#add(Math.min(cost, RESERVED), Math.max(cost, RESERVED))
    this.#add(cost, cost)
    if (random.below(3) > 0) return
    const again = await settle(port, token, usage).catch(() => undefined)
    if (again !== undefined) findings.equal(`status of a second settlement by ${this.name}`, again.status, 409)
  }

  /** `wasLost`: what was counted since the last save may be forgotten. */
  async check(port: number, findings: Findings, wasLost: boolean): Promise<void> {
    const spent = TOKENS - (await left({ port }, this.name))
    if (utcDay() === this.#bornDay) findings.within(`spent by the gateway ${this.name}`, spent, wasLost ? 0 : this.#low, this.#high)
  }

  #add(low: number, high: number): void {
    this.#low += low
    this.#high += high
  }
}

/** Gateways that settle what they asked for, each one question at a time. */
export class SettleLoad {
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, gateways: readonly SettlingGateway[], findings: Findings, random: Random) {
    this.#lanes = gateways.map((gateway) => this.#run(port, gateway, findings, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(port: number, gateway: SettlingGateway, findings: Findings, random: Random): Promise<void> {
    while (!this.#isOver) {
      await gateway.ask(port, random, findings)
      await sleep(random.below(60))
    }
  }
}

function utcDay(): number {
  return Math.floor(Date.now() / 86_400_000)
}
