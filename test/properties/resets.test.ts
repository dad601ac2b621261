import fc from 'fast-check'
import { expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { type Limit, WINDOW } from '../../src/limiter/limit.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { EmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../src/store/table/shared-table.ts'
import { newTableBuffer } from '../../src/store/table/table-layout.ts'
import { ClockedFleetStore } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { bucketLimit, dayLimit, resetRows, settleRows, type Taken, takeRows } from '../support/store/charging.ts'
import { MapStore } from '../support/store/map-store.ts'

const START_MS = Date.UTC(2026, 0, 15, 23, 59)

const WINDOWS: readonly Limit[] = [dayLimit(64), { kind: WINDOW, tokens: 64, calendar: calendarOf('1m', 'Asia/Kathmandu') }]
/** Rates and costs are halves and quarters, so that sums are exact in whatever order they are made. */
const LIMITS: readonly Limit[] = [bucketLimit(2 ** -10, 64), bucketLimit(0.25, 64), ...WINDOWS]
/**
 * Hardly anything comes back. An instance holds the fleet's count to its own, and that misses the refill that a bucket gets which others have taken from and
 * given back to: by so much the two may differ, and no further.
 */
const SLOW_LIMITS: readonly Limit[] = [bucketLimit(2 ** -40, 64), bucketLimit(2 ** -36, 64), ...WINDOWS]

interface Step {
  readonly what: 'take' | 'settle' | 'reset'
  readonly store: number
  readonly counter: number
  readonly caller: string
  readonly cost: number
  /** Which of the takes before is settled. Nothing goes back that was not taken. */
  readonly which: number
  readonly pauseMs: number
}

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('take', 'take', 'take', 'settle', 'settle', 'reset'),
  store: fc.nat(1),
  counter: fc.nat(LIMITS.length - 1),
  caller: fc.constantFrom('a', 'b'),
  cost: fc.oneof(fc.integer({ min: -40, max: 64 }), fc.integer({ min: 1, max: 12 })),
  which: fc.nat(7),
  pauseMs: fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 1, max: 20 }) },
    { weight: 1, arbitrary: fc.nat(40_000).map((ms) => ms + 1) },
  ),
})
const steps = fc.array(step, { minLength: 5, maxLength: 60 })

test('takes, settlements and resets by two threads leave what they leave in a Map', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const table = newTableBuffer(256 * 1024)
      await expectSameLevels(
        [1, 2].map((owner) => new EmbeddedStore(new SharedTable(table, owner), [1, 2])),
        all,
        LIMITS,
      )
    }),
    { numRuns: runs(14) },
  )
})

describeWithRedis('two instances on one Redis', () => {
  test('leave with takes, settlements and resets what these leave in a Map', async () => {
    const { link } = await usableLink((await runningRedis()).url, 60_000)
    let prefixes = 0
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const prefix = `edge:${prefixes++}:`
        await expectSameLevels([new ClockedFleetStore(link, prefix), new ClockedFleetStore(link, prefix)], all, SLOW_LIMITS)
      }),
      { numRuns: runs(4) },
    )
  })
})

async function expectSameLevels(stores: readonly CounterStore[], all: readonly Step[], limits: readonly Limit[]): Promise<void> {
  const model = new MapStore()
  const open = (store: CounterStore) => limits.map((limit, i) => store.open({ identity: [String(i)], limit, sinceMs: 0 }))
  const [opened, modelled] = [stores.map(open), open(model)]
  const taken: {
    readonly counter: number
    readonly caller: string
    readonly wallMs: number
    readonly store: number
    readonly tokens: number
  }[] = []
  let wallMs = START_MS
  for (const { what, store, counter, caller, cost, which, pauseMs } of all) {
    wallMs += pauseMs
    const nowMs = wallMs - START_MS
    if (what === 'take') {
      const row = (counters: ReturnType<typeof open>) => [{ counter: counters[counter]!, values: [caller], cost: Math.abs(cost) }]
      const answer = await takeRows(stores[store]!, row(opened[store]!), nowMs, wallMs)
      const expected = await takeRows(model, row(modelled), nowMs, wallMs)
      if (limits === LIMITS) expect(answer).toEqual(expected)
      else expect(rounded(answer)).toEqual(rounded(expected))
      if (answer.taken === true) taken.unshift({ counter, caller, wallMs, store, tokens: Math.abs(cost) })
    } else if (what === 'reset') {
      const row = (counters: ReturnType<typeof open>) => [{ counter: counters[counter]!, values: [caller] }]
      await resetRows(stores[store]!, row(opened[store]!), nowMs, wallMs)
      await resetRows(model, row(modelled), nowMs, wallMs)
    } else if (taken.length > 0) {
      const [one] = taken.splice(which % taken.length, 1) as [(typeof taken)[number]]
      const back = Math.min(cost, one.tokens)
      const row = (counters: ReturnType<typeof open>) => [{ counter: counters[one.counter]!, values: [one.caller], cost: back }]
      // By who has taken it: it alone has counted it.
      await settleRows(stores[one.store]!, row(opened[one.store]!), nowMs, wallMs, one.wallMs)
      await settleRows(model, row(modelled), nowMs, wallMs, one.wallMs)
    }
  }
}

function rounded({ taken, levels }: Taken): { taken: Taken['taken']; levels: readonly number[] } {
  return { taken, levels: levels.map(Math.round) }
}
