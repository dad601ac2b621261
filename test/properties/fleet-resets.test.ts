import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChargeResults, Charges } from '../../src/store/charges.ts'
import type { FleetCounter } from '../../src/store/redis/fleet-counter.ts'
import type { AnnouncedReset } from '../../src/store/redis/fleet-resets.ts'
import { FleetStore } from '../../src/store/redis/fleet-store.ts'
import type { Script, ScriptArgument } from '../../src/store/redis/link/call.ts'
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
/** Next to no refill: whatever comes back was spent before. */
const RATE = 2 ** -50
const INSTANCES = 3

/** What instances have done to the one counter that they share, in the order in which Redis did it. */
class History {
  /** All resets, as they are announced to all instances. */
  readonly announced: AnnouncedReset[] = []
  resets = 0
  /** Admitted by takes that Redis executed after the last reset, by instance. */
  readonly sinceReset = Array<number>(INSTANCES).fill(0)
  admitted = 0

  noteExecuted(action: string): void {
    if (action !== 'reset') return
    this.resets++
    this.sinceReset.fill(0)
  }
}

/** An instance to which resets are announced at its own time. */
class SimulatedInstance {
  readonly #number: number
  readonly #network: DelayingNetwork
  readonly #history: History
  readonly #store: FleetStore
  readonly #counter: FleetCounter
  /** How many resets there had been when Redis executed the take that was sent last. */
  #onExecuted: ((action: string) => void) | undefined
  #announced = 0

  constructor(number: number, network: DelayingNetwork, prefix: string, history: History) {
    this.#number = number
    this.#network = network
    this.#history = history
    const link = {
      groupOf: () => 0,
      isUsable: () => true,
      run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => {
        const onExecuted = this.#onExecuted
        this.#onExecuted = undefined
        return network.run(script, keys, args, () => {
          history.noteExecuted(args[0] as string)
          onExecuted?.(args[0] as string)
        })
      },
    }
    const shared = new SharedCounters(link, clockedScripts(), { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const clock = { nowMs: () => network.wallMs - START_MS, wallMs: () => network.wallMs }
    const announce = async (resets: readonly AnnouncedReset[]): Promise<void> => void history.announced.push(...resets)
    const local = newEmbeddedStore(64 * 1024)
    this.#store = new FleetStore({ shared, local, announce, failureMode: 'closed', clock, listener: { onDecided() {} } })
    this.#counter = this.#store.open({ identity: ['rule'], limit: bucketLimit(RATE, SIZE), sinceMs: 0, isLeasable: true })
  }

  async take(): Promise<void> {
    const history = this.#history
    let resetsBefore = 0
    this.#onExecuted = () => {
      resetsBefore = history.resets
    }
    const isTaken = (await this.#store.takeAll(this.#charges(), new ChargeResults(), ...this.#now())) === true
    if (!isTaken) return
    history.admitted++
    if (resetsBefore === history.resets) history.sinceReset[this.#number]!++
  }

  async reset(): Promise<void> {
    await this.#store.resetAll(this.#charges(), ...this.#now())
  }

  /** Those that were not announced to it yet. */
  learn(): void {
    this.#store.noteResets(this.#history.announced.slice(this.#announced))
    this.#announced = this.#history.announced.length
  }

  #charges(): Charges {
    const charges = new Charges()
    charges.add(this.#counter, 1)
    return charges
  }

  #now(): [nowMs: number, wallMs: number] {
    const { wallMs } = this.#network
    return [wallMs - START_MS, wallMs]
  }
}

const anyInstance = fc.nat(INSTANCES - 1)
const anyStep = fc.oneof(
  { weight: 8, arbitrary: fc.record({ what: fc.constant('take' as const), instance: anyInstance }) },
  { weight: 9, arbitrary: fc.record({ what: fc.constant('deliver' as const), which: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('reset' as const), instance: anyInstance }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('learn' as const), instance: anyInstance }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 400 }) }) },
)

describeWithRedis('resets of a counter that a fleet shares, whatever is late', () => {
  test.for([
    ['Redis keeps its data', false],
    ['Redis loses its data after the last one', true],
  ] as const)('nothing from before comes back: %s', async ([, isLost]) => {
    const redis = await runningRedis()
    const { link } = await usableLink(redis.url, 60_000)
    let prefixes = 0
    await fc.assert(
      fc.asyncProperty(anyInstance, fc.array(anyStep, { maxLength: 80 }), async (last, steps) => {
        const network = new DelayingNetwork(link, START_MS)
        const history = new History()
        const prefix = `edge:${prefixes++}:`
        const instances = Array.from({ length: INSTANCES }, (_, i) => new SimulatedInstance(i, network, prefix, history))
        const underWay: Promise<void>[] = []
        for (const step of [...steps, { what: 'reset', instance: last } as const]) {
          if (step.what === 'take') underWay.push(instances[step.instance]!.take())
          else if (step.what === 'reset') underWay.push(instances[step.instance]!.reset())
          else if (step.what === 'learn') instances[step.instance]!.learn()
          else if (step.what === 'pass') network.wallMs += step.ms
          else await network.letThrough(step.which)
        }
        while (await network.letThrough(prefixes));
        await Promise.all(underWay)
        expect(history.admitted).toBeLessThanOrEqual(SIZE * (history.resets + 1))
        for (const instance of instances) instance.learn()
        if (isLost) for (const key of (await redis.command('KEYS', `${prefix}*`)) as string[]) await redis.command('DEL', key)
        // What is left is used up.
        network.wallMs++
        for (let i = 0; i < INSTANCES * (SIZE + 1); i++) {
          const taking = instances[i % INSTANCES]!.take()
          while (await network.letThrough(0));
          await taking
        }
        const sinceReset = history.sinceReset.reduce((sum, tokens) => sum + tokens)
        expect(sinceReset).toBeGreaterThanOrEqual(SIZE)
        // Where Redis has lost what others have admitted, each is limited by what it has admitted itself since then.
        expect(isLost ? Math.max(...history.sinceReset) : sinceReset).toBeLessThanOrEqual(SIZE)
      }),
      { numRuns: runs(2) },
    )
  })
})
