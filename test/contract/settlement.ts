import { beforeEach, describe, expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, checkRows, dayLimit, type Row, settleRows, type Taken, takeRows } from '../support/store/charging.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000
const NEXT_DAY_MS = MIDNIGHT_MS + DAY_MS
const NEVER = Number.POSITIVE_INFINITY

/** What every store must do when a reservation is corrected to what was used, and when it is only asked. */
export function describeSettlement(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(identity: string, limit: Limit, sinceMs = 0): Counter {
      return store.open({ identity: [identity], limit, sinceMs })
    }

    function take(counter: Counter, cost: number, nowMs: number, wallMs = MIDNIGHT_MS): Promise<Taken> {
      return takeRows(store, [{ counter, cost }], nowMs, wallMs)
    }

    function settle(counter: Counter, cost: number, nowMs: number, wallMs = MIDNIGHT_MS, takenWallMs = MIDNIGHT_MS): Promise<void> {
      return settleRows(store, [{ counter, cost }], nowMs, wallMs, takenWallMs)
    }

    async function level(counter: Counter, nowMs: number, wallMs = MIDNIGHT_MS): Promise<number> {
      return (await take(counter, 0, nowMs, wallMs)).levels[0]!
    }

    describe(`what a bucket gets back`, () => {
      test('can be taken again, at once and by nobody else', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        const of = (caller: string, cost: number): Row[] => [{ counter, values: [caller], cost }]
        await takeRows(store, of('x', 10), 0)
        await takeRows(store, of('y', 10), 0)
        await settleRows(store, of('x', 6), 0)
        expect((await takeRows(store, of('y', 1), 0)).taken).toBe(false)
        expect((await takeRows(store, of('x', 7), 0)).taken).toBe(false)
        expect(await takeRows(store, of('x', 6), 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('comes on top of what has flowed back since, and that is granted once', async () => {
        const counter = open('a', bucketLimit(0.5, 100))
        await take(counter, 100, 0)
        await settle(counter, 40, 20)
        expect(await level(counter, 20)).toBe(10 + 40)
        expect(await level(counter, 24)).toBe(12 + 40)
      })

      test('never lifts its level above the burst', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 8, 0)
        await settle(counter, 8, 12)
        expect(await level(counter, 12)).toBe(10)
        await settle(counter, 1000, 12)
        expect(await take(counter, 10, 12)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
        expect((await take(counter, 1, 12)).taken).toBe(false)
      })

      test('is given at a moment before its last take too, and no refill with it', async () => {
        const counter = open('a', bucketLimit(0.5, 100))
        await take(counter, 100, 100)
        await settle(counter, 10, 60)
        expect(await level(counter, 60)).toBe(10)
        expect(await level(counter, 100)).toBe(10)
        expect(await level(counter, 102)).toBe(11)
      })

      test('changes nothing when nothing was ever taken from it', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await settle(counter, 5, 0)
        expect(await take(counter, 10, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('is held to the burst of now, when that has changed since the take', async () => {
        await take(open('a', bucketLimit(0.5, 100)), 90, 0)
        const smaller = open('a', bucketLimit(0.5, 20), 4)
        await settle(smaller, 90, 4)
        expect(await level(smaller, 4)).toBe(20)
      })

      test('comes on top of what flowed back at the rate before a change, and after it', async () => {
        await take(open('a', bucketLimit(0.5, 100)), 100, 0)
        const faster = open('a', bucketLimit(4, 100), 20)
        await settle(faster, 30, 22)
        expect(await level(faster, 22)).toBe(10 + 8 + 30)
        expect(await level(faster, 23)).toBe(10 + 12 + 30)
      })
    })

    describe(`a charge on top`, () => {
      test('takes from a bucket what is there, and what is not: refill pays the debt before anything passes', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 8, 0)
        await settle(counter, -7, 0)
        expect(await take(counter, 1, 0)).toEqual({ taken: false, levels: [-5], waitsMs: [12] })
        expect(await take(counter, 1, 10)).toEqual({ taken: false, levels: [0], waitsMs: [2] })
        expect((await take(counter, 1, 11)).taken).toBe(false)
        expect(await take(counter, 1, 12)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('may leave a debt larger than the burst, and it fills up in the end', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 10, 0)
        await settle(counter, -30, 0)
        expect(await take(counter, 10, 0)).toEqual({ taken: false, levels: [-30], waitsMs: [80] })
        expect(await level(counter, 60)).toBe(0)
        expect(await level(counter, 1000)).toBe(10)
      })

      test('is counted after the refill: a full bucket has no more than its burst to lose', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 1, 0)
        await settle(counter, -4, 1000)
        expect(await level(counter, 1000)).toBe(6)
      })

      test('that leaves a debt does not reject a take of nothing', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await settle(counter, -15, 0)
        expect(await take(counter, 0, 0)).toEqual({ taken: true, levels: [-5], waitsMs: [0] })
      })

      test('is paid by what is given back', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 10, 0)
        await settle(counter, -5, 0)
        await settle(counter, 8, 0)
        expect(await level(counter, 0)).toBe(3)
      })

      test('keeps a cost above the burst at NEVER', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await settle(counter, -15, 0)
        expect(await take(counter, 11, 0)).toEqual({ taken: false, levels: [-5], waitsMs: [NEVER] })
      })

      test('reaches a bucket or a day that nothing was taken from yet', async () => {
        const [bucket, day] = [open('a', bucketLimit(0.5, 10)), open('b', dayLimit(100))]
        await settle(bucket, -4, 0, NEXT_DAY_MS, MIDNIGHT_MS)
        await settle(day, -30, 0, MIDNIGHT_MS + 5, MIDNIGHT_MS)
        expect(await level(bucket, 0)).toBe(6)
        expect(await level(bucket, 4)).toBe(8)
        expect(await level(day, 0)).toBe(70)
      })

      test('counts on a day beyond what it has, and is reported as a debt', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 90, 0)
        await settle(counter, -40, 0)
        expect(await take(counter, 1, 0)).toEqual({ taken: false, levels: [-30], waitsMs: [DAY_MS] })
        await settle(counter, 25, 0)
        expect(await level(counter, 0)).toBe(-5)
        await settle(counter, 10, 0)
        expect(await level(counter, 0)).toBe(5)
      })

      test('on a day that is over is not the next day’s debt', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 90, 0)
        await settle(counter, -40, DAY_MS, NEXT_DAY_MS, NEXT_DAY_MS - 1)
        expect(await take(counter, 100, DAY_MS, NEXT_DAY_MS)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })
    })

    describe(`what a day gets back`, () => {
      test('can be taken again until midnight', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 100, 0)
        await settle(counter, 60, 1000, NEXT_DAY_MS - 1, MIDNIGHT_MS)
        expect(await take(counter, 61, 1000, NEXT_DAY_MS - 1)).toEqual({ taken: false, levels: [60], waitsMs: [1] })
        expect((await take(counter, 60, 1000, NEXT_DAY_MS - 1)).taken).toBe(true)
      })

      test('is never more than its tokens', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 30, 0)
        await settle(counter, 80, 0)
        expect(await level(counter, 0)).toBe(100)
        expect((await take(counter, 101, 0)).taken).toBe(false)
        await take(counter, 100, 0)
        expect((await take(counter, 1, 0)).taken).toBe(false)
      })

      test('goes to the day that it was taken from, after midnight too, and never into the next', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 80, 0, NEXT_DAY_MS - 1)
        await take(counter, 50, 1, NEXT_DAY_MS)
        await settle(counter, 60, 2, NEXT_DAY_MS + 1, NEXT_DAY_MS - 1)
        expect(await level(counter, 2, NEXT_DAY_MS + 1)).toBe(50)
        // A wall clock that is set back finds it where it belongs.
        expect(await level(counter, 2, NEXT_DAY_MS - 1)).toBe(80)
      })

      test('changes nothing when nothing was ever taken from it, on that day or the next', async () => {
        const counter = open('a', dayLimit(100))
        await settle(counter, 50, 0)
        await settle(counter, 50, 1, NEXT_DAY_MS, MIDNIGHT_MS)
        expect(await level(counter, 1)).toBe(100)
        expect(await take(counter, 100, 1, NEXT_DAY_MS)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('is held to the tokens of now, when they have changed since the take', async () => {
        await take(open('a', dayLimit(100)), 80, 0)
        const smaller = open('a', dayLimit(50), 1)
        await settle(smaller, 20, 1)
        expect(await level(smaller, 1)).toBe(-10)
        await settle(smaller, 40, 1)
        expect(await level(smaller, 1)).toBe(30)
      })
    })

    describe(`a settlement`, () => {
      test('corrects each of its rows by itself, whether it would pass or not', async () => {
        const [bucket, day] = [open('a', bucketLimit(0.5, 10)), open('b', dayLimit(100))]
        const rowsOf = (costs: readonly [number, number, number, number]): Row[] => [
          { counter: bucket, values: ['x'], cost: costs[0] },
          { counter: day, values: ['x'], cost: costs[1] },
          { counter: bucket, values: ['y'], cost: costs[2] },
          { counter: day, values: ['y'], cost: costs[3] },
        ]
        await takeRows(store, rowsOf([8, 80, 8, 80]), 0, MIDNIGHT_MS)
        await settleRows(store, rowsOf([5, -30, -9, 0]), 0, MIDNIGHT_MS)
        expect((await takeRows(store, rowsOf([0, 0, 0, 0]), 0, MIDNIGHT_MS)).levels).toEqual([7, -10, -7, 20])
        await settleRows(store, rowsOf([0, 15, 0, 5]), 0, MIDNIGHT_MS)
        expect((await takeRows(store, rowsOf([0, 0, 0, 0]), 0, MIDNIGHT_MS)).levels).toEqual([7, 5, -7, 25])
      })

      test('may have a hundred rows', async () => {
        const counter = open('a', bucketLimit(0.5, 100))
        const rows = Array.from({ length: 100 }, (_, i) => ({ counter, values: [`v${i}`], cost: 100 - i }))
        await takeRows(store, rows, 0)
        await settleRows(
          store,
          rows.map((row, i) => ({ ...row, cost: 50 - i })),
          0,
        )
        const looks = rows.map((row) => ({ ...row, cost: 0 }))
        expect((await takeRows(store, looks, 0)).levels).toEqual(rows.map(() => 50))
      })

      test('of no rows is none', async () => {
        await expect(settleRows(store, [], 0)).resolves.toBeUndefined()
      })
    })

    describe(`a check`, () => {
      test('returns true where a take would pass, with what is left, and takes nothing', async () => {
        const [bucket, day] = [open('a', bucketLimit(0.5, 10)), open('b', dayLimit(100))]
        await take(bucket, 4, 0)
        const rows = [
          { counter: bucket, cost: 6 },
          { counter: day, cost: 100 },
        ]
        const before = store.stats().occupiedSlots
        for (let i = 0; i < 3; i++) {
          expect(await checkRows(store, rows, 0, MIDNIGHT_MS)).toEqual({ taken: true, levels: [6, 100], waitsMs: [0, 0] })
        }
        expect(store.stats().occupiedSlots).toBe(before)
        expect(await takeRows(store, rows, 0, MIDNIGHT_MS)).toEqual({ taken: true, levels: [0, 0], waitsMs: [0, 0] })
      })

      test.each([0, 1, 2])('returns false, as a take would, when number %i cannot cover it', async (short) => {
        const limits = [bucketLimit(0.5, 10), dayLimit(10), bucketLimit(0.25, 10)]
        const counters = limits.map((limit, i) => open(`c${i}`, limit))
        await take(counters[short]!, 9, 0)
        const rows = counters.map((counter) => ({ counter, cost: 2 }))
        const checked = await checkRows(store, rows, 0, MIDNIGHT_MS)
        expect(checked).toEqual(await takeRows(store, rows, 0, MIDNIGHT_MS))
        expect(checked.taken).toBe(false)
      })

      test('on the next day asks the next day', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 100, 0)
        expect((await checkRows(store, [{ counter, cost: 1 }], 0, NEXT_DAY_MS - 1)).waitsMs).toEqual([1])
        expect((await checkRows(store, [{ counter, cost: 1 }], 1, NEXT_DAY_MS)).taken).toBe(true)
      })

      test('names NEVER for a cost above the size', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        expect(await checkRows(store, [{ counter, cost: 11 }], 0)).toEqual({ taken: false, levels: [10], waitsMs: [NEVER] })
      })
    })
  })
}
