import { beforeEach, describe, expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, dayLimit, type Taken, takeRows } from '../support/store/charging.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000
const NEVER = Number.POSITIVE_INFINITY

/**
 * What every store must do. Each test gets an empty store. Rates here are halves and quarters a millisecond, so that a
 * store that keeps them in fewer bits has no excuse.
 */
export function describeCounterStore(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(identity: string | readonly string[], limit: Limit, sinceMs = 0): Counter {
      return store.open({ identity: typeof identity === 'string' ? [identity] : identity, limit, sinceMs })
    }

    function take(counter: Counter, cost: number, nowMs: number, wallMs = MIDNIGHT_MS): Promise<Taken> {
      return takeRows(store, [{ counter, cost }], nowMs, wallMs)
    }

    describe(`a bucket`, () => {
      test('is full when nothing was ever taken from it', async () => {
        expect(await take(open('a', bucketLimit(0.5, 7.5)), 0, 123)).toEqual({ taken: true, levels: [7.5], waitsMs: [0] })
      })

      test('tells what is left after a take, and the same again when it refuses', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        expect(await take(counter, 7, 0)).toEqual({ taken: true, levels: [3], waitsMs: [0] })
        expect(await take(counter, 4, 0)).toEqual({ taken: false, levels: [3], waitsMs: [2] })
        expect(await take(counter, 3, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('refills at its rate, up to its size and no further', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 10, 0)
        expect((await take(counter, 0, 6)).levels).toEqual([3])
        expect((await take(counter, 0, 20)).levels).toEqual([10])
        expect((await take(counter, 0, 1_000_000)).levels).toEqual([10])
      })

      test('lets a request pass after the wait that it named', async () => {
        const counter = open('a', bucketLimit(0.25, 10))
        await take(counter, 10, 1000)
        const [waitMs] = (await take(counter, 5, 1008)).waitsMs
        expect(waitMs).toBe(12)
        expect((await take(counter, 5, 1019)).taken).toBe(false)
        expect((await take(counter, 5, 1020)).taken).toBe(true)
      })

      test('grants the refill between two moments once, whichever way the clock steps', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        await take(counter, 10, 100)
        expect((await take(counter, 1, 104)).levels).toEqual([1])
        expect((await take(counter, 1, 100)).levels).toEqual([0])
        expect(await take(counter, 1, 104)).toEqual({ taken: false, levels: [0], waitsMs: [2] })
        expect((await take(counter, 1, 106)).taken).toBe(true)
      })
    })

    describe(`a day`, () => {
      test('hands out its tokens once', async () => {
        const counter = open('a', dayLimit(100))
        expect(await take(counter, 60, 0)).toEqual({ taken: true, levels: [40], waitsMs: [0] })
        expect(await take(counter, 41, 0)).toEqual({ taken: false, levels: [40], waitsMs: [DAY_MS] })
        expect(await take(counter, 40, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
        expect((await take(counter, 1, 50_000_000)).taken).toBe(false)
      })

      test('waits for UTC midnight, and is whole again from then on', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 100, 0, MIDNIGHT_MS)
        expect((await take(counter, 1, 0, MIDNIGHT_MS + DAY_MS - 1)).waitsMs).toEqual([1])
        expect(await take(counter, 1, 0, MIDNIGHT_MS + DAY_MS)).toEqual({ taken: true, levels: [99], waitsMs: [0] })
      })

      test('is a counter of its own: a wall clock set back finds what was spent on that day', async () => {
        const counter = open('a', dayLimit(100))
        await take(counter, 30, 0, MIDNIGHT_MS)
        await take(counter, 50, 1, MIDNIGHT_MS + DAY_MS)
        expect((await take(counter, 0, 2, MIDNIGHT_MS + 5)).levels).toEqual([70])
        expect((await take(counter, 0, 3, MIDNIGHT_MS + DAY_MS + 5)).levels).toEqual([50])
      })

      test('that becomes smaller than what is spent lacks the rest', async () => {
        await take(open('a', dayLimit(100)), 80, 0)
        const smaller = open('a', dayLimit(50), 1)
        expect(await take(smaller, 1, 1)).toEqual({ taken: false, levels: [-30], waitsMs: [DAY_MS] })
        expect(await take(smaller, 0, 1)).toEqual({ taken: true, levels: [-30], waitsMs: [0] })
        expect((await take(open('a', dayLimit(200), 2), 0, 2)).levels).toEqual([120])
      })
    })

    describe(`a cost`, () => {
      test.each([
        ['bucket', bucketLimit(0.5, 10)],
        ['day', dayLimit(10)],
      ])('of 0 is always covered and changes nothing, by a %s', async (_, limit) => {
        const counter = open('a', limit)
        await take(counter, 10, 0)
        expect(await take(counter, 0, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
        expect(await take(counter, 0, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test.each([
        ['bucket', bucketLimit(0.5, 10)],
        ['day', dayLimit(10)],
      ])('above the size of a %s waits for NEVER, full or empty', async (_, limit) => {
        const counter = open('a', limit)
        expect(await take(counter, 11, 0)).toEqual({ taken: false, levels: [10], waitsMs: [NEVER] })
        await take(counter, 10, 0)
        expect(await take(counter, 11, 0)).toEqual({ taken: false, levels: [0], waitsMs: [NEVER] })
      })
    })

    describe(`a decision`, () => {
      test('takes from all of its counters', async () => {
        const [bucket, day] = [open('a', bucketLimit(0.5, 10)), open('b', dayLimit(100))]
        const rows = [
          { counter: bucket, values: ['x'], cost: 3 },
          { counter: bucket, values: ['y'], cost: 4 },
          { counter: day, cost: 50 },
        ]
        expect(await takeRows(store, rows, 0, MIDNIGHT_MS)).toEqual({ taken: true, levels: [7, 6, 50], waitsMs: [0, 0, 0] })
        expect(await takeRows(store, rows, 0, MIDNIGHT_MS)).toEqual({ taken: true, levels: [4, 2, 0], waitsMs: [0, 0, 0] })
      })

      test.each([0, 1, 2])('takes from none when number %i cannot cover it, and names each wait on its own', async (short) => {
        const limits = [bucketLimit(0.5, 10), dayLimit(10), bucketLimit(0.25, 10)]
        const counters = limits.map((limit, i) => open(`c${i}`, limit))
        await take(counters[short]!, 9, 0)
        const rows = counters.map((counter) => ({ counter, cost: 2 }))
        const { taken, levels, waitsMs } = await takeRows(store, rows, 0, MIDNIGHT_MS)
        expect(taken).toBe(false)
        expect(levels).toEqual([10, 10, 10].with(short, 1))
        expect(waitsMs).toEqual([0, 0, 0].with(short, [2, DAY_MS, 4][short]!))
        const looks = counters.map((counter) => ({ counter, cost: 0 }))
        expect((await takeRows(store, looks, 0, MIDNIGHT_MS)).levels).toEqual(levels)
      })

      test('of no counters is covered', async () => {
        expect(await takeRows(store, [], 0)).toEqual({ taken: true, levels: [], waitsMs: [] })
      })

      test('may have a hundred counters', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        const rows = Array.from({ length: 100 }, (_, i) => ({ counter, values: [`v${i}`], cost: 1 + (i % 10) }))
        const { taken, levels } = await takeRows(store, rows, 0)
        expect(taken).toBe(true)
        expect(levels).toEqual(rows.map(({ cost }) => 10 - cost))
      })
    })

    describe(`identity`, () => {
      test('and values decide whose counter it is, in whatever order counters were opened', async () => {
        await takeRows(store, [{ counter: open(['p', 'r'], bucketLimit(0.5, 10)), values: ['x', 'y'], cost: 4 }], 0)
        const others: [string[], string[]][] = [
          [
            ['p', 'q'],
            ['x', 'y'],
          ],
          [['p'], ['r', 'x', 'y']],
          [['p', 'r', 'x'], ['y']],
          [['pr'], ['x', 'y']],
          [['p', 'r'], ['xy']],
          [
            ['p', 'r'],
            ['xy', ''],
          ],
          [
            ['p', 'r'],
            ['y', 'x'],
          ],
          [
            ['p', 'r'],
            ['x', 'Y'],
          ],
        ]
        for (const [identity, values] of others) {
          const rows = [{ counter: open(identity, bucketLimit(0.5, 10)), values, cost: 0 }]
          expect((await takeRows(store, rows, 0)).levels).toEqual([10])
        }
        const same = [{ counter: open(['p', 'r'], bucketLimit(0.5, 10)), values: ['x', 'y'], cost: 0 }]
        expect((await takeRows(store, same, 0)).levels).toEqual([6])
      })

      test('takes any text as it is: long, not ASCII, with zeros, not well-formed', async () => {
        const counter = open('a', bucketLimit(0.5, 10))
        const values = ['é'.repeat(5000), `${'é'.repeat(4999)}e`, '\0', '\0\0', '', '€', '\u20ac\0', '😀', '\ud83d', '\ud83e', '{}', '"']
        for (const [i, value] of values.entries()) await takeRows(store, [{ counter, values: [value], cost: (i + 1) / 2 }], 0)
        const looks = values.map((value) => ({ counter, values: [value], cost: 0 }))
        expect((await takeRows(store, looks, 0)).levels).toEqual(values.map((_, i) => 10 - (i + 1) / 2))
      })
    })
  })
}
