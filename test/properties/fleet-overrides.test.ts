import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChargeResults, Charges } from '../../src/store/charges.ts'
import { OverrideMoments } from '../../src/store/redis/control-script.ts'
import type { FleetCounter } from '../../src/store/redis/fleet-counter.ts'
import { FleetStore } from '../../src/store/redis/fleet-store.ts'
import { SharedCounters } from '../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { DelayingNetwork } from '../support/fleet/delaying-network.ts'
import { clockedScripts } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { bucketLimit } from '../support/store/charging.ts'

const START_MS = Date.UTC(2026, 0, 15)
const SIZE = 8
/** Next to no refill: what is added is the override's. */
const RATE = 2 ** -50
const DAY_MS = 86_400_000

interface Change {
  readonly momentMs: number
  /** Undefined: the override before it is ended. */
  readonly size: number | undefined
}

/** An instance with a clock of its own, which learns of changes at its own time. */
class SimulatedInstance {
  nowMs: number
  readonly #skewMs: number
  readonly #store: FleetStore
  readonly #moments = new OverrideMoments()
  readonly #base: FleetCounter
  #inForce: { counter: FleetCounter; momentMs: number; fromMs: number } | undefined
  #latestMs = 0

  constructor(network: DelayingNetwork, prefix: string, skewMs: number) {
    this.#skewMs = skewMs
    this.nowMs = skewMs
    const overridesKnownAt = (nowMs: number) => this.#moments.knownAt(nowMs)
    const shared = new SharedCounters(network, clockedScripts(), { prefix, maxSlackMs: 0, overridesKnownAt }, { onUnknownOutcome() {} })
    const clock = { nowMs: () => this.nowMs, wallMs: () => START_MS + this.nowMs }
    this.#store = new FleetStore({ shared, local: newEmbeddedStore(64 * 1024), failureMode: 'closed', clock, listener: { onDecided() {} } })
    this.#base = this.#store.open({ identity: ['rule'], limit: bucketLimit(RATE, SIZE), sinceMs: 0, isLeasable: true })
  }

  /** Its workers know of it from now on. */
  learn({ momentMs, size }: Change): void {
    if (momentMs <= this.#latestMs) return
    this.#latestMs = momentMs
    // What its clock says may be a little wrong, and one that learns late begins later.
    const fromMs = size === undefined ? this.nowMs : Math.max(momentMs - START_MS + this.#skewMs, this.nowMs + 1)
    this.#moments.use({ latestMs: momentMs, upcoming: size === undefined ? [] : [{ momentMs, fromMs }] })
    this.#inForce = size === undefined ? undefined : { counter: this.#raised(size, momentMs, fromMs), momentMs, fromMs }
  }

  async take(): Promise<boolean> {
    const charges = new Charges()
    charges.add(this.#inForce !== undefined && this.nowMs >= this.#inForce.fromMs ? this.#inForce.counter : this.#base, 1)
    return (await this.#store.takeAll(charges, new ChargeResults(), this.nowMs, START_MS + this.nowMs)) === true
  }

  #raised(size: number, momentMs: number, sinceMs: number): FleetCounter {
    const override = { momentMs, untilMs: momentMs + DAY_MS, ruleSize: SIZE }
    const limit = { ...bucketLimit(RATE, size), raisedFrom: SIZE }
    return this.#store.open({ identity: ['rule'], limit, sinceMs, isLeasable: true, override })
  }
}

const anyStep = fc.oneof(
  { weight: 5, arbitrary: fc.record({ what: fc.constant('take' as const), instance: fc.nat(2) }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('deliver' as const), which: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('learn' as const), instance: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 400 }) }) },
)
const anySkews = fc.tuple(...Array.from({ length: 3 }, () => fc.integer({ min: 0, max: 60 })))

describeWithRedis('overrides of a limit that a fleet shares, whatever is late', () => {
  test.for([
    ['before the counter is met under it', 0],
    ['after the counter was met under it', 5],
  ] as const)('a take from before one is charged long after that, %s: the difference is added once', async ([, met]) => {
    const redis = await runningRedis()
    const { link } = await usableLink(redis.url, 60_000)
    const network = new DelayingNetwork(link, START_MS)
    const instance = new SimulatedInstance(network, 'edge:', 0)
    let admitted = 0
    const takeTimes = async (times: number, lateCalls: number) => {
      for (let i = 0; i < times; i++) {
        const taking = instance.take()
        // Its call, and its reply.
        for (let ways = 0; ways < 2; ways++) await network.letThrough(lateCalls)
        if (await taking) admitted++
      }
    }
    instance.learn({ momentMs: START_MS + 1000, size: 3 * SIZE })
    const early = instance.take()
    await network.letThrough(0)
    network.wallMs += 2000
    instance.nowMs += 2000
    await takeTimes(met, 1)
    await network.letThrough(0)
    if (await early) admitted++
    expect(admitted).toBe(1 + met)
    // From now on, what the instance has counted itself is all that is known.
    await redis.command('FLUSHALL')
    await takeTimes(4 * SIZE, 0)
    expect(admitted).toBe(3 * SIZE)
  })

  test('add each difference once at most, and none is lost', async () => {
    const { link } = await usableLink((await runningRedis()).url, 60_000)
    let prefixes = 0
    const anyRaise = fc.integer({ min: 1, max: 3 }).map((factor) => SIZE * (factor + 1))
    await fc.assert(
      fc.asyncProperty(
        anySkews,
        anyRaise,
        fc.option(anyRaise),
        fc.array(anyStep, { maxLength: 60 }),
        async (skews, first, second, steps) => {
          const network = new DelayingNetwork(link, START_MS)
          const instances = skews.map((skewMs) => new SimulatedInstance(network, `edge:${prefixes}:`, skewMs))
          prefixes++
          const changes: Change[] = [{ momentMs: START_MS + 1000, size: first }]
          // Ended, and then another one: the level carries over, capped at the rule's own size.
          if (second !== null) changes.push({ momentMs: START_MS + 2000, size: undefined }, { momentMs: START_MS + 3000, size: second })
          const known = instances.map(() => 0)
          let admitted = 0
          const taking: Promise<void>[] = []
          const take = (instance: number) => {
            const taken = instances[instance]!.take().then((isTaken) => {
              if (isTaken) admitted++
            })
            taking.push(taken)
          }
          const pass = (ms: number) => {
            network.wallMs += ms
            for (const instance of instances) instance.nowMs += ms
          }
          const learn = (instance: number) => {
            const change = changes[known[instance]!]
            // It is in Redis a second before its moment.
            if (change === undefined || network.wallMs < change.momentMs - 1000) return
            known[instance]!++
            instances[instance]!.learn(change)
          }
          for (const step of steps) {
            if (step.what === 'take') take(step.instance)
            else if (step.what === 'deliver') await network.letThrough(step.which)
            else if (step.what === 'learn') learn(step.instance)
            else pass(step.ms)
          }
          while (await network.letThrough(0));
          await Promise.all(taking)
          const most = SIZE + (first - SIZE) + (second === null ? 0 : second - SIZE)
          expect(admitted).toBeLessThanOrEqual(most)
          if (second !== null) return
          // All know it and it is in force: what is left of it can be used up.
          pass(2000)
          for (const i of instances.keys()) learn(i)
          pass(100)
          for (let i = 0; i < 2 * first; i++) {
            take(i % 3)
            while (await network.letThrough(0));
          }
          await Promise.all(taking)
          expect(admitted).toBe(first)
        },
      ),
      { numRuns: runs(2) },
    )
  })
})
