import { describe, expect, test } from 'vitest'
import { bucketLimit, dayLimit, settleRows, takeRowsNow } from '../../../test/support/store/charging.ts'
import { HASH_KEY, hammer, NOW_MS, SCALE, specOf, spent, storeOn, take } from '../../../test/support/store/hammered-table.ts'
import type { Limit } from '../../limiter/limit.ts'
import { ChargeResults, Charges } from '../charges.ts'
import { EmbeddedStore } from './embedded-store.ts'
import { SharedTable } from './shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from './table-layout.ts'

const DAY_MS = 86_400_000

describe('what was taken elsewhere', () => {
  function charge(costs: readonly number[], slackMs: number, along: readonly number[], leased: readonly number[] = []) {
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
      { along, leased },
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

  test('is not charged where a lease was, however little is left there', () => {
    expect(charge([20, 4, 10], 0, [], [0])).toEqual({ isCharged: true, levels: [10, 6, 0] })
    expect(charge([20, 11, 10], 0, [], [0])).toEqual({ isCharged: false, levels: [10, 10, 10] })
  })

  test('is charged in any case where it goes along, and the rest is not for that', () => {
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
})

describe('a settlement in a table', () => {
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

function occupied(buffer: SharedArrayBuffer): number {
  return storeOn(buffer).stats().occupiedSlots
}
