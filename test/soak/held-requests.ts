import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { concurrencyRule, type PolicyText, policy } from '../support/bundles/bundles.ts'
import { Random } from '../support/random/random.ts'
import type { BackendHolds } from './backend-holds.ts'
import { CALLER_FIELD } from './budget-caller.ts'
import { eventually } from './eventually.ts'
import type { Findings } from './findings.ts'
import { ProxyRequest } from './proxy-request.ts'
import { PLAY_FIELD } from './soak-backend.ts'

const MAX_IN_FLIGHT = 3
/** Longer than any run: a hold that nobody releases is found. */
const HOLD_SECONDS = 3600
const PATH = '/held'

export function heldPolicies(): PolicyText[] {
  const rules = [concurrencyRule('in flight', ['header:x-caller'], MAX_IN_FLIGHT, HOLD_SECONDS)]
  return [policy('held', { selector: { pathPrefix: PATH }, rules })]
}

/** A caller who may have some requests in flight, and tries to have more. */
export class HeldCaller {
  readonly name: string
  readonly seen = { admitted: 0, rejected: 0, unknown: 0 }
  /** Its clients go away at any moment. */
  readonly leaves: boolean

  constructor(name: string, leaves: boolean) {
    this.name = name
    this.leaves = leaves
  }

  /** Returns the status, if one came. */
  async ask(port: number, delayMs: number, stayMs: number, agent: Agent | undefined): Promise<number | undefined> {
    const headers = { [CALLER_FIELD]: this.name, [PLAY_FIELD]: JSON.stringify({ delayMs }) }
    const request = new ProxyRequest({ port, method: 'GET', path: PATH, headers, body: '', agent })
    if (Number.isFinite(stayMs)) {
      await Promise.race([request.over, sleep(stayMs)])
      request.leave(stayMs % 2 === 0)
    }
    await request.over
    if (request.status === 429) this.seen.rejected++
    else if (request.status === undefined) this.seen.unknown++
    else this.seen.admitted++
    return request.status
  }

  /** When nothing is in flight: as many as may be are let in at once, and no more. */
  async check(port: number, findings: Findings, holds: BackendHolds): Promise<void> {
    let statuses: (number | undefined)[] = []
    const asksAll = async (): Promise<boolean> => {
      statuses = await Promise.all(
        Array.from({ length: MAX_IN_FLIGHT + 1 }, () => this.ask(port, 300, Number.POSITIVE_INFINITY, undefined)),
      )
      return statuses.filter((status) => status === 200).length === MAX_IN_FLIGHT
    }
    // A release is on its way to Redis for a moment.
    await eventually(`${this.name} has all its places back`, asksAll, () => `It got ${statuses.join(', ')}.`)
    findings.equal(`rejected of ${this.name} beyond its places`, statuses.filter((status) => status === 429).length, 1)
    // The backend of a request that was left hears of it later than edge does.
    if (!this.leaves) findings.atMost(`requests of ${this.name} in flight`, holds.most.get(this.name) ?? 0, MAX_IN_FLIGHT)
  }
}

/** Callers who ask for more at once than they may. */
export class HeldLoad {
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, callers: readonly HeldCaller[], random: Random, lanes: number) {
    this.#lanes = Array.from({ length: lanes }, () => this.#run(port, callers, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(port: number, callers: readonly HeldCaller[], random: Random): Promise<void> {
    const agent = new Agent({ keepAlive: true })
    while (!this.#isOver) {
      const caller = random.oneOf(callers)
      const stayMs = caller.leaves && random.below(2) === 0 ? random.below(100) : Number.POSITIVE_INFINITY
      await caller.ask(port, random.below(120), stayMs, random.below(2) === 0 ? agent : undefined)
      await sleep(random.below(30))
    }
    agent.destroy()
  }
}
