import { beforeEach, describe, expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { WINDOW, type WindowLimit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, resetRows, settleRows, type Taken, takeRows } from '../support/store/charging.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000

/** The largest budget there is, in billionths: every one of them counts. */
const LARGEST = 9_000_000_000_000_000

/** What every store must do with a window that warns. */
export function describeWarnings(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(limit: WindowLimit, identity = 'a'): Counter {
      return store.open({ identity: [identity], limit, sinceMs: 0, isSettled: true })
    }

    function take(counter: Counter, cost: number, values: readonly string[] = [], wallMs = MIDNIGHT_MS): Promise<Taken> {
      return takeRows(store, [{ counter, cost, values }], 0, wallMs)
    }

    /** Gives `cost` back, or charges it below zero; returns the percentages that were warned of. */
    async function settle(counter: Counter, cost: number, wallMs = MIDNIGHT_MS, takenWallMs = wallMs): Promise<number[]> {
      const warned: number[] = []
      await settleRows(store, [{ counter, cost }], 0, wallMs, takenWallMs, (row, percent) => {
        expect(row).toBe(0)
        warned.push(percent)
      })
      return warned
    }

    describe(`a window that warns`, () => {
      test('does so with the take that reaches the share, and not before it', async () => {
        const counter = open(warningLimit(1000, 80, 95))
        expect((await take(counter, 799)).warnings).toBeUndefined()
        expect((await take(counter, 1)).warnings).toEqual([80])
        expect((await take(counter, 149)).warnings).toBeUndefined()
        expect((await take(counter, 1)).warnings).toEqual([95])
        expect((await take(counter, 50)).warnings).toBeUndefined()
      })

      test('names the highest of several shares that one take reaches, and only it', async () => {
        const counter = open(warningLimit(1000, 50, 80, 100))
        expect((await take(counter, 900)).warnings).toEqual([80])
        expect((await take(counter, 100)).warnings).toEqual([100])
      })

      test('does not warn of a share again, whatever was given back in between', async () => {
        const counter = open(warningLimit(1000, 80))
        expect((await take(counter, 800)).warnings).toEqual([80])
        expect(await settle(counter, 800)).toEqual([])
        expect((await take(counter, 900)).warnings).toBeUndefined()
      })

      test('warns with a settlement that charges more than was reserved', async () => {
        const counter = open(warningLimit(1000, 80, 95))
        await take(counter, 700)
        expect(await settle(counter, -99)).toEqual([])
        expect(await settle(counter, -1)).toEqual([80])
        expect(await settle(counter, -900)).toEqual([95])
        expect(await settle(counter, -1)).toEqual([])
      })

      test('warns each caller and each window for itself', async () => {
        const counter = open(warningLimit(1000, 80))
        expect((await take(counter, 800, ['x'])).warnings).toEqual([80])
        expect((await take(counter, 800, ['y'])).warnings).toEqual([80])
        expect((await take(counter, 800, ['x'], MIDNIGHT_MS + DAY_MS)).warnings).toEqual([80])
      })

      test('keeps what it warned of in the window before, to which settlements still go', async () => {
        const counter = open(warningLimit(1000, 80))
        expect((await take(counter, 800)).warnings).toEqual([80])
        expect((await take(counter, 800, [], MIDNIGHT_MS + DAY_MS)).warnings).toEqual([80])
        expect(await settle(counter, -100, MIDNIGHT_MS + DAY_MS, MIDNIGHT_MS)).toEqual([])
      })

      // Enough buckets that some are on another node of a cluster, where the budget is taken first and given back then.
      test.each(['b', 'c', 'd', 'e', 'f', 'g'])(
        'says nothing where the row %s refuses, and warns with the take that succeeds',
        async (other) => {
          const [budget, bucket] = [open(warningLimit(1000, 80)), store.open({ identity: [other], limit: bucketLimit(0.5, 1), sinceMs: 0 })]
          const rows = (cost: number) => [
            { counter: budget, cost: 900 },
            { counter: bucket, cost },
          ]
          const refused = { taken: false, levels: [1000, 1], waitsMs: [0, Number.POSITIVE_INFINITY] }
          expect(await takeRows(store, rows(2), 0, MIDNIGHT_MS)).toEqual(refused)
          expect((await takeRows(store, rows(1), 0, MIDNIGHT_MS)).warnings).toEqual([80, 0])
        },
      )

      test('warns again after a reset', async () => {
        const counter = open(warningLimit(1000, 80))
        expect((await take(counter, 800)).warnings).toEqual([80])
        await resetRows(store, [{ counter }], 0, MIDNIGHT_MS + 1)
        expect((await take(counter, 800, [], MIDNIGHT_MS + 2)).warnings).toEqual([80])
      })

      test('measures shares by the limit of the moment', async () => {
        expect((await take(open(warningLimit(1000, 80)), 700)).warnings).toBeUndefined()
        expect((await take(open(warningLimit(800, 80)), 1)).warnings).toEqual([80])
        expect((await take(open(warningLimit(2000, 40, 80)), 899)).warnings).toBeUndefined()
        expect((await take(open(warningLimit(2000, 90)), 200)).warnings).toEqual([90])
      })

      test('counts every unit of the largest budget', async () => {
        const counter = open(warningLimit(LARGEST, 80, 100))
        expect(await take(counter, LARGEST * 0.8 - 1)).toEqual({ taken: true, levels: [LARGEST * 0.2 + 1], waitsMs: [0] })
        expect((await take(counter, 1)).warnings).toEqual([80])
        expect((await take(counter, LARGEST * 0.2 + 1)).taken).toBe(false)
        expect(await settle(counter, 1)).toEqual([])
        expect(await take(counter, LARGEST * 0.2)).toEqual({ taken: true, levels: [1], waitsMs: [0] })
        expect(await take(counter, 1)).toEqual({ taken: true, levels: [0], waitsMs: [0], warnings: [100] })
        expect((await take(counter, 1)).taken).toBe(false)
      })
    })
  })
}

/** Two stores that share their counters: threads, or instances. */
export function describeSharedWarnings(name: string, newStores: () => readonly [CounterStore, CounterStore]): void {
  test(`${name}: warn once together, whichever of them reaches the share`, async () => {
    const stores = newStores()
    const counters = stores.map((store) => store.open({ identity: ['a'], limit: warningLimit(1000, 50, 80), sinceMs: 0, isSettled: true }))
    const warned: number[] = []
    for (let i = 0; i < 10; i++) {
      const { warnings } = await takeRows(stores[i % 2]!, [{ counter: counters[i % 2]!, cost: 100 }], 0, MIDNIGHT_MS)
      warned.push(...(warnings ?? []))
    }
    expect(warned).toEqual([50, 80])
  })
}

function warningLimit(tokens: number, ...percents: readonly number[]): WindowLimit {
  const warnings = percents.map((percent) => ({ percent, tokens: (tokens / 100) * percent }))
  return { kind: WINDOW, tokens, calendar: calendarOf('1d', 'UTC'), warnings }
}
