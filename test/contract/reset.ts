import { beforeEach, describe, expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { type Limit, WINDOW } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { sized } from '../support/run/property-runs.ts'
import { bucketLimit, checkRows, dayLimit, inFlightLimit, resetRows, settleRows, type Taken, takeRows } from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const MINUTE_MS = 60_000
const SIZE = 100

/** So slow a refill that none is seen here. */
const LIMITS: readonly [string, Limit][] = [
  ['bucket', bucketLimit(2 ** -30, SIZE)],
  ['day', dayLimit(SIZE)],
  ['limit of requests in flight', inFlightLimit(SIZE, 60_000)],
  ['month of New York', { kind: WINDOW, tokens: SIZE, calendar: calendarOf('1mo', 'America/New_York') }],
]

/** What every store must do where counters are reset. Each test gets an empty store. */
export function describeReset(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore
    let wallMs = NOON_MS

    beforeEach(async () => {
      store = await newStore()
      wallMs = NOON_MS
    })

    const open = (limit: Limit, identity = 'a'): Counter => store.open({ identity: [identity], limit, sinceMs: 0 })
    /** Everything happens at a moment of its own. */
    const tick = (): number => ++wallMs
    const take = (counter: Counter, cost: number, value = 'x'): Promise<Taken> =>
      takeRows(store, [{ counter, values: [value], cost }], tick() - NOON_MS, wallMs)
    const settle = (counter: Counter, cost: number, takenWallMs: number): Promise<void> =>
      settleRows(store, [{ counter, values: ['x'], cost }], tick() - NOON_MS, wallMs, takenWallMs)
    const reset = (counter: Counter, value = 'x'): Promise<void> =>
      resetRows(store, [{ counter, values: [value] }], tick() - NOON_MS, wallMs)
    const left = async (counter: Counter, value = 'x'): Promise<number> => {
      const { levels } = await checkRows(store, [{ counter, values: [value], cost: 0 }], tick() - NOON_MS, wallMs)
      return Math.round(levels[0]!)
    }

    describe.each(LIMITS)(`a reset of a %s`, (_, limit) => {
      test('makes it whole again, and it can be used up once more', async () => {
        const counter = open(limit)
        await take(counter, SIZE)
        await reset(counter)
        expect(await left(counter)).toBe(SIZE)
        expect((await take(counter, SIZE)).taken).toBe(true)
        expect((await take(counter, 1)).taken).toBe(false)
      })

      test('is about that caller and that rule alone', async () => {
        const [counter, other] = [open(limit), open(limit, 'b')]
        await take(counter, 30)
        await take(counter, 40, 'y')
        await take(other, 50)
        await reset(counter)
        expect([await left(counter), await left(counter, 'y'), await left(other)]).toEqual([SIZE, SIZE - 40, SIZE - 50])
      })

      test('before anything was taken changes nothing', async () => {
        const counter = open(limit)
        await reset(counter)
        expect(await left(counter)).toBe(SIZE)
        expect(await take(counter, 30)).toMatchObject({ taken: true })
        expect(await left(counter)).toBe(SIZE - 30)
      })

      test('can be done again and again', async () => {
        const counter = open(limit)
        for (let i = 0; i < 3; i++) {
          await take(counter, 80)
          await reset(counter)
          await reset(counter)
          expect(await left(counter)).toBe(SIZE)
        }
      })

      test('can be done again in the same millisecond', async () => {
        const counter = open(limit)
        const now = tick()
        const row = { counter, values: ['x'], cost: 80 }
        for (let i = 0; i < 3; i++) {
          expect((await takeRows(store, [row], now - NOON_MS, now)).taken).toBe(true)
          await resetRows(store, [row], now - NOON_MS, now)
        }
        expect(await left(counter)).toBe(SIZE)
      })

      test.each([
        ['goes back', 60],
        ['was used besides', -60],
      ])('drops what %s of a take before it', async (_what, cost) => {
        const counter = open(limit)
        await take(counter, 70)
        const takenWallMs = wallMs
        await reset(counter)
        await take(counter, 80)
        await settle(counter, cost, takenWallMs)
        expect(await left(counter)).toBe(SIZE - 80)
      })

      test.each([
        ['goes back', 60],
        ['was used besides', -15],
      ])('leaves what %s of a take after it', async (_what, cost) => {
        const counter = open(limit)
        await take(counter, 90)
        await reset(counter)
        await take(counter, 80)
        await settle(counter, cost, wallMs)
        expect(await left(counter)).toBe(SIZE - 80 + cost)
      })

      test('drops what belongs to takes between two of them, and nothing of later ones', async () => {
        const counter = open(limit)
        await reset(counter)
        await take(counter, 50)
        const betweenWallMs = wallMs
        await reset(counter)
        await take(counter, 40)
        const laterWallMs = wallMs
        await settle(counter, 50, betweenWallMs)
        expect(await left(counter)).toBe(SIZE - 40)
        await settle(counter, 30, laterWallMs)
        expect(await left(counter)).toBe(SIZE - 40 + 30)
      })

      test('takes no other row of its decision along', async () => {
        const [counter, other] = [open(limit), open(limit, 'b')]
        const rows = [counter, other].map((each) => ({ counter: each, values: ['x'], cost: 60 }))
        await takeRows(store, rows, tick() - NOON_MS, wallMs)
        const takenWallMs = wallMs
        await reset(counter)
        await settleRows(store, rows, tick() - NOON_MS, wallMs, takenWallMs)
        expect([await left(counter), await left(other)]).toEqual([SIZE, SIZE])
        expect((await takeRows(store, rows, tick() - NOON_MS, wallMs)).taken).toBe(true)
      })

      test('of many counters at once resets each of them', async () => {
        const counter = open(limit)
        const callers = Array.from({ length: sized(12, 40) }, (_, i) => `caller ${i}`)
        for (const caller of callers) await take(counter, 70, caller)
        const rows = callers.map((caller) => ({ counter, values: [caller] }))
        await resetRows(store, rows, tick() - NOON_MS, wallMs)
        for (const caller of callers) expect(await left(counter, caller)).toBe(SIZE)
      })
    })

    test(`a reset of no counters is none`, async () => {
      await expect(resetRows(store, [], 0, NOON_MS)).resolves.toBeUndefined()
    })

    describe(`a reset of a window`, () => {
      const limit: Limit = { kind: WINDOW, tokens: SIZE, calendar: calendarOf('1m', 'UTC') }

      test('says nothing of the next one', async () => {
        const counter = open(limit)
        await take(counter, 90)
        await reset(counter)
        await take(counter, 20)
        wallMs += MINUTE_MS
        expect(await left(counter)).toBe(SIZE)
        await take(counter, 70)
        expect(await left(counter)).toBe(SIZE - 70)
        await settle(counter, 30, wallMs - 1)
        expect(await left(counter)).toBe(SIZE - 40)
      })

      test('leaves what settles a window before it', async () => {
        const counter = open(limit)
        await take(counter, 90)
        const takenWallMs = wallMs
        wallMs += MINUTE_MS
        await take(counter, 50)
        await reset(counter)
        await settle(counter, 60, takenWallMs)
        expect(await left(counter)).toBe(SIZE)
      })
    })
  })
}

/** What stores that share their counters must do: two of them, both empty. */
export function describeSharedReset(name: string, newStores: () => readonly [CounterStore, CounterStore]): void {
  describe.each(LIMITS)(`${name}: a reset of a %s that two know`, (_, limit) => {
    let wallMs = NOON_MS
    const at = (): [number, number] => [++wallMs - NOON_MS, wallMs]

    function pair() {
      wallMs = NOON_MS
      return newStores().map((store) => {
        const counter = store.open({ identity: ['a'], limit, sinceMs: 0 })
        return {
          take: async (cost: number) => (await takeRows(store, [{ counter, cost }], ...at())).taken,
          settle: (cost: number, takenWallMs: number) => settleRows(store, [{ counter, cost }], ...at(), takenWallMs),
          reset: () => resetRows(store, [{ counter }], ...at()),
          left: async () => Math.round((await checkRows(store, [{ counter, cost: 0 }], ...at())).levels[0]!),
        }
      }) as [Party, Party]
    }

    test('is not undone by what the other one has spent', async () => {
      const [one, two] = pair()
      await one.take(40)
      await two.take(60)
      await one.reset()
      expect(await two.left()).toBe(SIZE)
      expect(await two.take(30)).toBe(true)
      expect([await one.left(), await two.left()]).toEqual([SIZE - 30, SIZE - 30])
      expect(await one.take(71)).toBe(false)
      expect(await one.take(70)).toBe(true)
      expect(await two.take(1)).toBe(false)
    })

    test('is not undone by what the other one settles', async () => {
      const [one, two] = pair()
      await two.take(60)
      const takenWallMs = wallMs
      await one.reset()
      await one.take(80)
      await two.settle(50, takenWallMs)
      expect([await one.left(), await two.left()]).toEqual([SIZE - 80, SIZE - 80])
      await two.settle(-50, takenWallMs)
      expect([await one.left(), await two.left()]).toEqual([SIZE - 80, SIZE - 80])
    })

    test('can be done by either, in turns', async () => {
      const [one, two] = pair()
      for (const [resets, spends] of [
        [one, two],
        [two, one],
        [one, two],
      ] as const) {
        await spends.take(90)
        await resets.reset()
        expect(await spends.left()).toBe(SIZE)
        expect(await resets.take(20)).toBe(true)
        expect(await spends.left()).toBe(SIZE - 20)
        await spends.reset()
      }
    })
  })
}

interface Party {
  take(cost: number): Promise<unknown>
  settle(cost: number, takenWallMs: number): Promise<void>
  reset(): Promise<void>
  left(): Promise<number>
}
