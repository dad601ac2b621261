import type { Limit } from '../../../src/limiter/limit.ts'
import { ChargeResults, Charges, type Taken } from '../../../src/store/charges.ts'
import type { Outcome } from '../../../src/store/counter-store.ts'
import { Corrections } from '../../../src/store/redis/corrections.ts'
import type { FleetCounter } from '../../../src/store/redis/fleet-counter.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { Leases } from '../../../src/store/redis/leases/leases.ts'
import type { LinkError, Script, ScriptArgument } from '../../../src/store/redis/link/call.ts'
import { ReservationScript } from '../../../src/store/redis/scripts.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { type EmbeddedStore, newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { type ClockedLink, clockedScripts } from './clocked-link.ts'

interface InstanceOptions {
  readonly failureMode?: 'local' | 'closed' | 'open'
  /** Its own counters: workers of one instance have the same. */
  readonly local?: EmbeddedStore
  /** How long tokens are pre-fetched for; by default, they are not. */
  readonly leaseMs?: number | undefined
  /** Its id, if instances settle for one another. */
  readonly instance?: string
  /** Which keys one call reaches, and how far the clock of their node is ahead. */
  readonly groupOf?: (key: string) => number
  readonly nodeAheadMs?: (key: string) => number
}

export interface Reply {
  readonly outcome: Outcome
  readonly levels: readonly number[]
  readonly waitsMs: readonly number[]
  /** When it was taken, by the clock of the counters. */
  readonly takenWallMs: number
  readonly taken: Taken
}

/** An instance on a Redis whose clock is a number, with a clock of its own. */
export class ClockedInstance {
  readonly local: EmbeddedStore
  readonly store: FleetStore
  readonly corrections: Corrections | undefined
  /** The actions that Redis was asked for. */
  readonly calls: string[] = []
  /** How far its clock is ahead of that of Redis. */
  aheadMs = 0
  /** What happens before a call reaches Redis, and before its answer is here. An error is what becomes of it. */
  onWayOut: (action: string, keys: readonly string[]) => Promise<LinkError | undefined> | undefined = () => undefined
  onWayBack: (action: string) => Promise<LinkError | undefined> | undefined = () => undefined
  readonly #link: ClockedLink
  readonly #shared: SharedCounters
  readonly #nodeAheadMs: (key: string) => number

  constructor(link: ClockedLink, prefix: string, options: InstanceOptions = {}) {
    const { failureMode = 'closed', local, leaseMs, instance, groupOf, nodeAheadMs } = options
    this.#link = link
    this.#nodeAheadMs = nodeAheadMs ?? (() => 0)
    this.local = local ?? newEmbeddedStore(256 * 1024)
    const counterLink = {
      groupOf: groupOf ?? (() => 0),
      isUsable: () => true,
      run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => this.#run(script, keys, args),
    }
    const shared = new SharedCounters(counterLink, clockedScripts(), { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    this.#shared = shared
    const clock = { nowMs: () => link.nowMs, wallMs: () => this.wallMs }
    const listener = { onUnknownOutcome() {} }
    const corrected = { prefix, local: this.local, isExpected: () => true, ...clock, listener }
    this.corrections =
      instance === undefined ? undefined : new Corrections({ script: new ReservationScript(counterLink), instance, ...corrected })
    const leased = { shared, local: this.local, clock, listener: { onHeld() {}, onTokens() {} } }
    const leases = leaseMs === undefined ? undefined : new Leases({ ...leased, leaseMs })
    const { corrections } = this
    this.store = new FleetStore({ shared, local: this.local, leases, corrections, failureMode, clock, listener: { onDecided() {} } })
  }

  get wallMs(): number {
    return this.#link.wallMs + this.aheadMs
  }

  open(limit: Limit, name = 'rule'): FleetCounter {
    return this.store.open({ identity: [name], limit, sinceMs: 0 })
  }

  /** As a rule's counter that is not settled. */
  openLeasable(limit: Limit): FleetCounter {
    return this.store.open({ identity: ['rule'], limit, sinceMs: 0, isLeasable: true })
  }

  keyOf(counter: FleetCounter): string {
    return this.#shared.keyOf(chargesOf(0, [counter]), 0)
  }

  take(cost: number, ...counters: readonly FleetCounter[]): Promise<Reply> {
    return this.#ask('takeAll', cost, counters)
  }

  async left(counter: FleetCounter): Promise<number> {
    return Math.round((await this.#ask('checkAll', 0, [counter])).levels[0]!)
  }

  /** What its own counters have left. */
  ownLeft(counter: FleetCounter): number {
    const results = new ChargeResults()
    this.local.checkAll(chargesOf(0, [counter]), results, this.#link.nowMs, this.#link.wallMs)
    return Math.round(results.levels[0]!)
  }

  /** Sends settlements that could not be sent before. */
  sendUnsent(): Promise<void> {
    return this.#shared.sendUnsent()
  }

  async settle(counter: FleetCounter, cost: number, takenWallMs: number): Promise<void> {
    const taken = { wallMs: takenWallMs, momentMs: takenWallMs, from: 'shared' } as const
    await this.store.settleAll(chargesOf(cost, [counter]), taken, this.#link.nowMs, this.wallMs)
  }

  /** Gives back what any instance took. */
  async refund(counter: FleetCounter, cost: number): Promise<void> {
    const { taken } = await this.take(0, counter)
    await this.store.settleAll(chargesOf(cost, [counter]), { ...taken, isTakerUnknown: true }, this.#link.nowMs, this.wallMs)
  }

  /** Gives back what another instance took. */
  async settleFor(taker: ClockedInstance, counter: FleetCounter, cost: number, taken: Taken): Promise<void> {
    const charges = chargesOf(cost, [counter])
    charges.locators = taker.store.locatorsOf(charges, taken)
    await this.store.settleLocated(charges, taker.corrections!.instance, taken, this.#link.nowMs, this.wallMs)
  }

  async release(counter: FleetCounter, taken: Taken): Promise<void> {
    await this.store.settleAll(chargesOf(1, [counter]), taken, this.#link.nowMs, this.wallMs)
  }

  renew(counter: FleetCounter, taken: Taken): Promise<Taken> {
    return this.store.renewAll(chargesOf(1, [counter]), taken, this.#link.nowMs)
  }

  reset(...counters: readonly FleetCounter[]): Promise<void> {
    return this.store.resetAll(chargesOf(0, counters), this.#link.nowMs, this.wallMs)
  }

  async #ask(action: 'takeAll' | 'checkAll', cost: number, counters: readonly FleetCounter[]): Promise<Reply> {
    const [charges, results] = [chargesOf(cost, counters), new ChargeResults()]
    const outcome = await this.store[action](charges, results, this.#link.nowMs, this.wallMs)
    const [levels, waitsMs] = [results.levels, results.waitsMs].map((all) => [...all.subarray(0, counters.length)])
    const { wallMs, momentMs, takenFrom } = results
    return { outcome, levels: levels!, waitsMs: waitsMs!, takenWallMs: wallMs, taken: { wallMs, momentMs, from: takenFrom } }
  }

  async #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const action = args[0] as string
    this.calls.push(action)
    const notDone = await this.onWayOut(action, keys)
    if (notDone !== undefined) throw notDone
    const reply = await this.#link.run(script, keys, args, this.#nodeAheadMs(keys[0]!))
    const isLost = await this.onWayBack(action)
    if (isLost !== undefined) throw isLost
    return reply
  }
}

function chargesOf(cost: number, counters: readonly FleetCounter[]): Charges {
  const charges = new Charges()
  for (const counter of counters) charges.add(counter, cost)
  return charges
}
