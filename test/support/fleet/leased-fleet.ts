import type { Limit } from '../../../src/limiter/limit.ts'
import { ChargeResults, Charges } from '../../../src/store/charges.ts'
import type { CounterSpec, Outcome } from '../../../src/store/counter-store.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { Leases } from '../../../src/store/redis/leases/leases.ts'
import { LinkError, type Script, type ScriptArgument } from '../../../src/store/redis/link/call.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { EmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../../src/store/table/shared-table.ts'
import { newTableBuffer } from '../../../src/store/table/table-layout.ts'
import { clockedScripts } from '../redis/clocked-link.ts'
import type { RedisServer } from '../redis/redis-server.ts'
import { SimulatedTime } from './simulated-time.ts'

interface FleetOptions {
  readonly redis: RedisServer
  readonly leaseMs: number
  /** How long a call takes each way. */
  readonly wayMs?: () => number
  /** How instances decide while Redis is unreachable; by default, they reject. */
  readonly failureMode?: 'local' | 'closed'
}

/** Instances that share limits in a real Redis, all by one simulated clock. */
export class LeasedFleet {
  readonly time = new SimulatedTime()
  readonly options: FleetOptions
  readonly scripts = clockedScripts()
  /** Of all instances. */
  calls = 0
  isUnreachable = false
  /** By so much the clock of Redis is behind that of the instances. */
  behindMs = 0
  /** Calls get no answer. */
  holdsCalls = false
  readonly #underWay: (readonly ScriptArgument[])[] = []

  private constructor(options: FleetOptions) {
    this.options = options
  }

  static async start(options: FleetOptions): Promise<LeasedFleet> {
    const fleet = new LeasedFleet(options)
    await fleet.forget()
    return fleet
  }

  /** The calls that have no answer yet, each on one bucket. */
  get underWay(): { action: string; cost: number; leases: boolean }[] {
    return this.#underWay.map(([action, numbers]) => {
      const [, , cost, , , , , , , more] = numbers as readonly number[]
      return { action: action as string, cost: cost!, leases: more !== 0 }
    })
  }

  newInstance(): FleetInstance {
    return new FleetInstance(this, newTableBuffer(256 * 1024))
  }

  async run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const { wayMs = () => 0 } = this.options
    this.calls++
    this.#underWay.push(args)
    if (this.holdsCalls) return new Promise(() => {})
    await this.time.pass(wayMs())
    try {
      if (this.isUnreachable) throw new LinkError('not_sent', 'unreachable', 'Redis is unreachable')
      const answer = await this.time.standStillFor(() => this.call(script, keys, args))
      await this.time.pass(wayMs())
      return answer
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(args), 1)
    }
  }

  /** Redis loses all of its data. */
  async forget(): Promise<void> {
    await this.options.redis.command('FLUSHALL')
  }

  /** Has an instance give back what is old. */
  async sweep(one: FleetInstance): Promise<void> {
    const swept = one.leases.sweep(this.time.nowMs())
    await this.time.advance(0)
    await swept
  }

  /** Runs the script at once. */
  call(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const { options, time, behindMs } = this
    return options.redis.run(script, keys, [...args, String(time.nowMs() - behindMs), String(time.wallMs() - behindMs)])
  }
}

/** One thread of an instance; those with the same table are of one process. */
export class FleetInstance {
  readonly decidedBy = { redis: 0, lease: 0, refusal: 0, failure_mode: 0 }
  readonly tokens = { leased: 0, given_back: 0, lost: 0 }
  leasesHeld = 0
  readonly leases: Leases
  readonly store: FleetStore
  readonly table: SharedArrayBuffer
  readonly #fleet: LeasedFleet
  readonly #local: EmbeddedStore

  constructor(fleet: LeasedFleet, table: SharedArrayBuffer, owner = 1) {
    this.#fleet = fleet
    this.table = table
    const local = new EmbeddedStore(new SharedTable(table, owner), [1, 2])
    this.#local = local
    const link = {
      groupOf: () => 0,
      isUsable: () => !fleet.isUnreachable,
      run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => fleet.run(script, keys, args),
    }
    const shared = new SharedCounters(link, fleet.scripts, { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome: () => {} })
    this.leases = new Leases({
      shared,
      local,
      leaseMs: fleet.options.leaseMs,
      clock: fleet.time,
      listener: {
        onHeld: (change) => {
          this.leasesHeld += change
        },
        onTokens: (what, tokens) => {
          this.tokens[what] += tokens
        },
      },
    })
    const listener = { onDecided: (by: keyof typeof this.decidedBy) => this.decidedBy[by]++ }
    const { failureMode = 'closed' } = fleet.options
    this.store = new FleetStore({ shared, local, leases: this.leases, failureMode, clock: fleet.time, listener })
  }

  otherThread(): FleetInstance {
    return new FleetInstance(this.#fleet, this.table, 2)
  }

  open(limit: Limit, isLeasable = true, name = 'rule'): ReturnType<FleetStore['open']> {
    const spec: CounterSpec = { identity: ['policy', name], limit, isLeasable, sinceMs: 0 }
    return this.store.open(spec)
  }

  /** Takes one token of each counter for the same caller, all or none. */
  async take(...counters: readonly ReturnType<FleetStore['open']>[]): Promise<{ outcome: Outcome; levels: number[]; waitsMs: number[] }> {
    return this.#ask('takeAll', counters)
  }

  async check(...counters: readonly ReturnType<FleetStore['open']>[]): Promise<{ outcome: Outcome; levels: number[]; waitsMs: number[] }> {
    return this.#ask('checkAll', counters)
  }

  reset(counter: ReturnType<FleetStore['open']>): Promise<void> {
    const { time } = this.#fleet
    return this.store.resetAll(chargesOf([counter]), time.nowMs(), time.wallMs())
  }

  /** Gives back what any instance took. */
  async refund(counter: ReturnType<FleetStore['open']>, tokens: number): Promise<void> {
    const { time } = this.#fleet
    const charges = chargesOf([counter])
    charges.costs[0] = tokens
    const taken = { wallMs: time.wallMs(), momentMs: time.wallMs(), from: 'shared', isTakerUnknown: true } as const
    await this.store.settleAll(charges, taken, time.nowMs(), time.wallMs())
  }

  /** What its own counters have left for the caller. */
  ownLeft(counter: ReturnType<FleetStore['open']>): number {
    const { time } = this.#fleet
    const results = new ChargeResults()
    this.#local.checkAll(chargesOf([counter]), results, time.nowMs(), time.wallMs())
    return results.levels[0]!
  }

  async #ask(action: 'takeAll' | 'checkAll', counters: readonly ReturnType<FleetStore['open']>[]) {
    const { time } = this.#fleet
    const [charges, results] = [chargesOf(counters), new ChargeResults()]
    const outcome = await this.store[action](charges, results, time.nowMs(), time.wallMs())
    const { levels, waitsMs } = results
    const { length } = charges
    return { outcome, levels: [...levels.subarray(0, length)], waitsMs: [...waitsMs.subarray(0, length)] }
  }
}

/** One token of each, for the same caller. */
function chargesOf(counters: readonly ReturnType<FleetStore['open']>[]): Charges {
  const charges = new Charges()
  for (const counter of counters) {
    charges.addValue('caller')
    charges.add(counter, 1)
  }
  return charges
}
