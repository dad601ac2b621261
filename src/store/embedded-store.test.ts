import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import { bucketLimit, dayLimit, settleRows, takeRowsNow } from '../../test/support/store/charging.ts'
import { newGate, runThread } from '../../test/support/threads/threads.ts'
import type { Limit } from '../limiter/limit.ts'
import { ChargeResults } from './charge-results.ts'
import { Charges } from './charges.ts'
import { EmbeddedStore } from './embedded-store.ts'
import { SharedTable } from './shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from './table-layout.ts'

const HASH_KEY = [0x5eed, -0x5eed] as const
/** All happens at one instant, at which nothing comes back. */
const NOW_MS = 1000
const DAY_MS = 86_400_000

interface ThreadRow {
  readonly spec: ReturnType<typeof specOf>
  readonly values: readonly string[]
  readonly cost: number
}

type ThreadDecision = readonly ThreadRow[]

/** How often threads meet: more often in `npm run test:full`. */
const SCALE = runs(1)

describe('what was taken elsewhere', () => {
  function charge(costs: readonly number[], slackMs: number, paid: readonly number[]) {
    const store = new EmbeddedStore(new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1), HASH_KEY)
    const limits = [bucketLimit(0.5, 10), bucketLimit(0.5, 10), dayLimit(10)]
    const counters = limits.map((limit, i) => store.open({ identity: [`${i}`], limit, sinceMs: 0 }))
    const charges = new Charges()
    for (const [i, cost] of costs.entries()) charges.add(counters[i]!, cost)
    const isCharged = store.chargeAll(
      charges,
      new ChargeResults(),
      { wallMs: 0, momentMs: 0 },
      { nowMs: NOW_MS, askedMs: NOW_MS },
      slackMs,
      paid,
    )
    const looks = counters.map((counter) => ({ counter, cost: 0 }))
    return { isCharged, levels: takeRowsNow(store, looks, NOW_MS).levels }
  }

  test('is charged where there is enough, to all or to none', () => {
    expect(charge([10, 4, 10], 0, [])).toEqual({ isCharged: true, levels: [0, 6, 0] })
    expect(charge([11, 4, 10], 0, [])).toEqual({ isCharged: false, levels: [10, 10, 10] })
    expect(charge([10, 4, 11], 1000, [])).toEqual({ isCharged: false, levels: [10, 10, 10] })
  })

  test('may be more by what comes back to a bucket in a while', () => {
    expect(charge([12, 4, 10], 4, [])).toEqual({ isCharged: true, levels: [-2, 6, 0] })
    expect(charge([12.5, 4, 10], 4, [])).toEqual({ isCharged: false, levels: [10, 10, 10] })
  })

  test('is charged in any case where it was paid for before, and the rest is not for that', () => {
    expect(charge([20, 4, 10], 0, [0])).toEqual({ isCharged: true, levels: [-10, 6, 0] })
    expect(charge([20, 11, 10], 0, [0])).toEqual({ isCharged: false, levels: [10, 10, 10] })
  })
})

describe('two threads on one table', () => {
  test('admit exactly the burst between them', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const decision = [{ spec: specOf('key', 3000 * SCALE), values: ['caller'], cost: 1 }]
    const [one, two] = await hammer(buffer, [[decision], [decision]], 2000 * SCALE)
    expect(one! + two!).toBe(3000 * SCALE)
    expect(spent(buffer, decision[0]!)).toBe(3000 * SCALE)
    expect(occupied(buffer)).toBe(1)
  })

  test('that take the same counters in opposite order do not lock each other out, and take from all or none', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const rows = Array.from({ length: 6 }, (_, i) => ({ spec: specOf(`rule${i}`, 1000 * SCALE + i), values: ['caller'], cost: 1 }))
    const [one, two] = await hammer(buffer, [[rows], [rows.toReversed()]], 800 * SCALE)
    expect(one! + two!).toBe(1000 * SCALE)
    for (const row of rows) expect(spent(buffer, row)).toBe(1000 * SCALE)
  })

  test('that share one counter of two spend from their own exactly what they got of it', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const shared = { spec: specOf('shared', 1000 * SCALE), values: [], cost: 1 }
    const own = ['a', 'b'].map((caller) => ({ spec: specOf('own', 1_000_000), values: [caller], cost: 1 }))
    const [one, two] = await hammer(
      buffer,
      own.map((row) => [[shared, row]]),
      800 * SCALE,
    )
    expect(one! + two!).toBe(1000 * SCALE)
    expect(own.map((row) => spent(buffer, row))).toEqual([one, two])
  })

  test('that flood it with keys of their own keep it within its slots, and count every eviction', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES * 2)
    const flood = (thread: string): ThreadDecision[] =>
      Array.from({ length: 1000 * SCALE }, (_, i) => [{ spec: specOf('rule', 100), values: [`${thread}${i}`], cost: 1 + (i % 50) }])
    expect(await hammer(buffer, [flood('a'), flood('b')], 1)).toEqual([1000 * SCALE, 1000 * SCALE])
    const { slots, occupiedSlots, forcedEvictions } = storeOn(buffer).stats()
    expect(occupiedSlots).toBe(slots)
    expect(forcedEvictions).toBe(2000 * SCALE - slots)
  })
})

describe('a settlement in a table', () => {
  test('loses nothing to a thread that takes from the same counter meanwhile', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const row = { spec: specOf('key', 200_000), values: ['caller'], cost: 1 }
    const store = storeOn(buffer)
    take(store, { ...row, cost: 100_000 })
    const [charges, results] = [new Charges(), new ChargeResults()]
    charges.addValue('caller')
    charges.add(store.open(row.spec), 1)
    const gate = newGate(2)
    const taking = runThread('taking-thread', { buffer, owner: 2, hashKey: HASH_KEY, gate, decisions: [[row]], times: 5000 * SCALE })
    while (Atomics.load(gate.words, 0) === 0) await setTimeout(1)
    Atomics.add(gate.words, 0, 1)
    Atomics.notify(gate.words, 0)
    for (let i = 0; i < 5000 * SCALE; i++) {
      store.checkAll(charges, results, NOW_MS, 0)
      store.settleAll(charges, { wallMs: 0, momentMs: 0, from: 'local' }, NOW_MS, 0)
    }
    expect(await taking).toBe(5000 * SCALE)
    expect(spent(buffer, row)).toBe(100_000)
  })

  test('for a bucket that was full again and had to make room takes no slot from anybody', async () => {
    const { store, counter, stats } = fullTable(bucketLimit(1, 100))
    await settleRows(store, [{ counter, values: ['mine'], cost: 40 }], 500)
    expect(stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
    expect(takeRowsNow(store, [{ counter, values: ['mine'], cost: 0 }], 500).levels).toEqual([100])
  })

  test('for a bucket that had to make room charges a full one', async () => {
    const { store, counter, stats } = fullTable(bucketLimit(1, 100))
    await settleRows(store, [{ counter, values: ['mine'], cost: -140 }], 500)
    expect(stats().forcedEvictions).toBe(1)
    expect(takeRowsNow(store, [{ counter, values: ['mine'], cost: 0 }], 500).levels).toEqual([-40])
  })

  test.each([40, -40])('of %i for a day that is over and had to make room takes no slot from anybody', async (cost) => {
    const { store, counter, stats } = fullTable(dayLimit(100))
    await settleRows(store, [{ counter, values: ['mine'], cost }], 500, DAY_MS + 400, DAY_MS - 100)
    expect(stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
  })

  test('leaves a day that is over as one that may go', async () => {
    const store = storeOn(newTableBuffer(MIN_TABLE_BYTES))
    const [day, bucket] = [dayLimit(100), bucketLimit(1, 100)].map((limit) =>
      store.open({ identity: [String(limit.kind)], limit, sinceMs: 0 }),
    )
    takeRowsNow(store, [{ counter: day!, values: ['mine'], cost: 90 }], 0, DAY_MS - 100)
    await settleRows(store, [{ counter: day!, values: ['mine'], cost: 10 }], 500, DAY_MS + 400, DAY_MS - 100)
    for (let i = 0; i < 32; i++) takeRowsNow(store, [{ counter: bucket!, values: [`b${i}`], cost: 50 }], 500, DAY_MS + 400)
    expect(store.stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
  })

  test.each([10, -10])('of %i keeps a day that is not over until its midnight, and no longer', async (cost) => {
    const store = storeOn(newTableBuffer(MIN_TABLE_BYTES))
    const [day, bucket] = [dayLimit(100), bucketLimit(0.001, 100)].map((limit) =>
      store.open({ identity: [String(limit.kind)], limit, sinceMs: 0 }),
    )
    if (cost > 0) takeRowsNow(store, [{ counter: day!, values: ['mine'], cost: 90 }], 0, DAY_MS - 1000)
    await settleRows(store, [{ counter: day!, values: ['mine'], cost }], 600, DAY_MS - 400, DAY_MS - 1000)
    for (let i = 0; i < 32; i++) takeRowsNow(store, [{ counter: bucket!, values: [`b${i}`], cost: 5 }], 999, DAY_MS - 1)
    expect(store.stats().forcedEvictions).toBe(1)
    expect(takeRowsNow(store, [{ counter: day!, values: ['mine'], cost: 0 }], 999, DAY_MS - 1).levels).toEqual([cost > 0 ? 20 : 90])
    takeRowsNow(store, [{ counter: bucket!, values: ['last'], cost: 5 }], 1000, DAY_MS)
    expect(store.stats().forcedEvictions).toBe(1)
  })

  /** One counter was taken from, and 32 others have since taken its slot and all the rest, when it was full or over. */
  function fullTable(limit: Limit) {
    const store = storeOn(newTableBuffer(MIN_TABLE_BYTES))
    const counter = store.open({ identity: ['counter'], limit, sinceMs: 0 })
    const others = store.open({ identity: ['others'], limit: bucketLimit(0.001, 100), sinceMs: 0 })
    takeRowsNow(store, [{ counter, values: ['mine'], cost: 90 }], 0, DAY_MS - 100)
    for (let i = 0; i < 32; i++) takeRowsNow(store, [{ counter: others, values: [`other${i}`], cost: 50 }], 500, DAY_MS + 400)
    return { store, counter, stats: () => store.stats() }
  }
})

test('a store without the key of the other finds none of its counters', () => {
  const buffer = newTableBuffer(64 * 1024)
  const row = { spec: specOf('key', 10), values: ['caller'], cost: 4 }
  const other = new EmbeddedStore(new SharedTable(buffer, 2), [1, 2])
  take(storeOn(buffer), row)
  expect(take(other, { ...row, cost: 0 })).toBe(10)
  expect(take(storeOn(buffer), { ...row, cost: 0 })).toBe(6)
})

async function hammer(buffer: SharedArrayBuffer, decisions: readonly (readonly ThreadDecision[])[], times: number): Promise<number[]> {
  const gate = newGate(decisions.length)
  const threads = decisions.map((list, i) =>
    runThread('taking-thread', { buffer, owner: 2 + i, hashKey: HASH_KEY, gate, decisions: list, times }),
  )
  return (await Promise.all(threads)) as number[]
}

function specOf(name: string, burst: number) {
  return { identity: ['policy', name], limit: bucketLimit(1, burst), sinceMs: 0 }
}

function storeOn(buffer: SharedArrayBuffer): EmbeddedStore {
  return new EmbeddedStore(new SharedTable(buffer, 1), HASH_KEY)
}

function take(store: EmbeddedStore, { spec, values, cost }: ThreadRow): number {
  return takeRowsNow(store, [{ counter: store.open(spec), values, cost }], NOW_MS).levels[0]!
}

function spent(buffer: SharedArrayBuffer, row: ThreadRow): number {
  const { limit } = row.spec
  return limit.burst - take(storeOn(buffer), { ...row, cost: 0 })
}

function occupied(buffer: SharedArrayBuffer): number {
  return storeOn(buffer).stats().occupiedSlots
}
