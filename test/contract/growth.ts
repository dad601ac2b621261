import { beforeEach, describe, expect, test } from 'vitest'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, checkRows, dayLimit, type Row, settleRows, type Taken, takeRows } from '../support/store/charging.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000

/** What every store must do with reservations that grow. */
export function describeGrowth(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore
    let minute: Counter
    let day: Counter

    beforeEach(async () => {
      store = await newStore()
      minute = store.open({ identity: ['a', 'minute'], limit: bucketLimit(2 ** -20, 10), sinceMs: 0, isSettled: true })
      day = store.open({ identity: ['a', 'day'], limit: dayLimit(100), sinceMs: 0, isSettled: true })
    })

    const rows = (cost: number): Row[] => [
      { counter: minute, cost, values: ['caller'] },
      { counter: day, cost, values: ['caller'] },
    ]
    const grow = (cost: number, wallMs = MIDNIGHT_MS): Promise<Taken> => takeRows(store, rows(cost), 0, wallMs, 'growth')
    const levels = async (wallMs = MIDNIGHT_MS): Promise<readonly number[]> => (await checkRows(store, rows(0), 0, wallMs)).levels

    describe('a reservation that grows', () => {
      test('takes from its window and its bucket', async () => {
        await takeRows(store, rows(4), 0, MIDNIGHT_MS)
        expect(await grow(5)).toMatchObject({ taken: true, levels: [1, 91] })
        expect(await levels()).toEqual([1, 91])
      })

      test('overdraws its bucket, which a decision may not', async () => {
        await takeRows(store, rows(9), 0, MIDNIGHT_MS)
        expect((await takeRows(store, rows(20), 0, MIDNIGHT_MS)).taken).toBe(false)
        expect(await grow(20)).toMatchObject({ taken: true, levels: [-19, 71] })
        expect(await grow(20)).toMatchObject({ taken: true, levels: [-39, 51] })
        expect((await takeRows(store, rows(1), 0, MIDNIGHT_MS)).taken).toBe(false)
      })

      test('takes nothing at all where its window refuses', async () => {
        await grow(95)
        expect(await grow(6)).toMatchObject({ taken: false, levels: [-85, 5] })
        expect(await levels()).toEqual([-85, 5])
        expect((await grow(5)).taken).toBe(true)
      })

      test('takes from the window of its moment', async () => {
        await grow(60)
        expect(await grow(60, MIDNIGHT_MS + DAY_MS)).toMatchObject({ taken: true, levels: [-110, 40] })
        expect((await grow(41, MIDNIGHT_MS + DAY_MS)).taken).toBe(false)
      })

      test('gets back what is not used', async () => {
        await grow(60)
        await settleRows(store, rows(55), 0, MIDNIGHT_MS)
        expect(await levels()).toEqual([5, 95])
      })
    })
  })
}
