import { beforeEach, describe, expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter, Taken as TakenAt } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import {
  bucketLimit,
  checkRows,
  dayLimit,
  inFlightLimit,
  renewRows,
  resetRows,
  settleRows,
  type Taken,
  takeRows,
} from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const SLICE_MS = 1000
const HOLD_MS = 8 * SLICE_MS
const NEVER = Number.POSITIVE_INFINITY

/** What two stores must do that share their counters. Each test gets new ones. */
export function describeSharedHolds(name: string, newStores: () => readonly [CounterStore, CounterStore]): void {
  const limit = inFlightLimit(2, SLICE_MS)
  const at = (ms: number): TakenAt => ({ wallMs: NOON_MS + ms, momentMs: NOON_MS + ms, from: 'local' })

  describe(`${name}: requests in flight`, () => {
    test('of one are seen by the other for as long as they last, renewed by the one and released by it', async () => {
      const [one, two] = newStores()
      const rowOf = (store: CounterStore) => [{ counter: store.open({ identity: ['a'], limit, sinceMs: 0 }), cost: 1 }]
      const left = async (ms: number): Promise<number> => (await checkRows(two, rowOf(two), ms, NOON_MS + ms)).levels[0]!
      await takeRows(one, rowOf(one), 500, NOON_MS + 500)
      await takeRows(one, rowOf(one), 1500, NOON_MS + 1500)
      expect([await left(HOLD_MS - 1), await left(HOLD_MS), await left(HOLD_MS + SLICE_MS)]).toEqual([0, 1, 2])
      await renewRows(one, rowOf(one), at(1500), 5000, NOON_MS + 5000)
      expect([await left(HOLD_MS - 1), await left(HOLD_MS), await left(HOLD_MS + 4999)]).toEqual([0, 1, 1])
      await settleRows(one, rowOf(one), 6000, NOON_MS + 6000, NOON_MS + 5000)
      expect([await left(6000), await left(HOLD_MS)]).toEqual([1, 2])
    })
  })
}

/** What every store must do with requests in flight. Each test gets an empty store. Times are from noon, where a slice begins. */
export function describeHolds(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    const open = (max: number, identity = 'a', sinceMs = 0): Counter => openLimit(inFlightLimit(max, SLICE_MS), identity, sinceMs)
    const openLimit = (limit: Limit, identity: string, sinceMs = 0): Counter => store.open({ identity: [identity], limit, sinceMs })
    const row = (counter: Counter, cost: number, value = 'x') => ({ counter, values: [value], cost })
    const take = (counter: Counter, atMs: number, cost = 1): Promise<Taken> => takeRows(store, [row(counter, cost)], atMs, NOON_MS + atMs)
    const release = (counter: Counter, takenMs: number, atMs: number, cost = 1): Promise<void> =>
      settleRows(store, [row(counter, cost)], atMs, NOON_MS + atMs, NOON_MS + takenMs)
    const renew = (counter: Counter, takenMs: number, atMs: number, from: TakenAt['from'] = 'local'): Promise<TakenAt> =>
      renewRows(store, [row(counter, 1)], { wallMs: NOON_MS + takenMs, momentMs: NOON_MS + takenMs, from }, atMs, NOON_MS + atMs)
    const left = async (counter: Counter, atMs: number): Promise<number> =>
      (await checkRows(store, [row(counter, 0)], atMs, NOON_MS + atMs)).levels[0]!

    describe(`requests in flight`, () => {
      test('are admitted up to the limit, and the next is asked to come back in a second', async () => {
        const counter = open(2)
        expect(await take(counter, 0)).toEqual({ taken: true, levels: [1], waitsMs: [0] })
        expect(await take(counter, 10)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
        expect(await take(counter, 20)).toEqual({ taken: false, levels: [0], waitsMs: [1000] })
        expect(await take(counter, 20, 3)).toEqual({ taken: false, levels: [0], waitsMs: [NEVER] })
        expect(await take(counter, 20, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
      })

      test('that end make room, whichever of them ends', async () => {
        const counter = open(2)
        await take(counter, 0)
        await take(counter, 2500)
        await release(counter, 0, 2600)
        expect(await left(counter, 2600)).toBe(1)
        expect((await take(counter, 2600)).taken).toBe(true)
        await release(counter, 2500, 2700)
        await release(counter, 2600, 2700)
        expect(await left(counter, 2700)).toBe(2)
      })

      test('are looked at without being changed', async () => {
        const counter = open(2)
        await take(counter, 0)
        expect(await checkRows(store, [row(counter, 1)], 0, NOON_MS)).toEqual({ taken: true, levels: [1], waitsMs: [0] })
        expect(await checkRows(store, [row(counter, 2)], 0, NOON_MS)).toEqual({ taken: false, levels: [1], waitsMs: [1000] })
        expect(await left(counter, 0)).toBe(1)
      })

      test('are counted for each caller alone', async () => {
        const counter = open(1)
        await take(counter, 0)
        expect((await takeRows(store, [row(counter, 1, 'y')], 0, NOON_MS)).taken).toBe(true)
        expect((await take(open(1, 'b'), 0)).taken).toBe(true)
        expect((await take(counter, 0)).taken).toBe(false)
      })

      test('are counted together whatever slice they began in, a thousand of them', async () => {
        const counter = open(1000)
        for (let slice = 0; slice < 8; slice++) expect((await take(counter, slice * SLICE_MS + 7, 125)).taken).toBe(true)
        expect(await take(counter, HOLD_MS - 1)).toMatchObject({ taken: false, levels: [0] })
        for (let slice = 0; slice < 8; slice++) {
          expect(await left(counter, (8 + slice) * SLICE_MS)).toBe(125 * (slice + 1))
        }
      })

      test('are part of a decision that takes all or nothing', async () => {
        const [holds, bucket, day] = [open(2), openLimit(bucketLimit(2 ** -30, 10), 'b'), openLimit(dayLimit(10), 'c')]
        const rows = [row(bucket, 3), row(holds, 1), row(day, 4)]
        const looks = rows.map((each) => ({ ...each, cost: 0 }))
        const levels = async (): Promise<number[]> => (await takeRows(store, looks, 0, NOON_MS)).levels.map(Math.round)
        expect((await takeRows(store, rows, 0, NOON_MS)).taken).toBe(true)
        expect((await takeRows(store, rows, 0, NOON_MS)).taken).toBe(true)
        expect(await takeRows(store, rows, 0, NOON_MS)).toMatchObject({ taken: false, waitsMs: [0, 1000, expect.any(Number)] })
        expect(await levels()).toEqual([4, 0, 2])
        await release(holds, 0, 0)
        expect((await takeRows(store, rows, 0, NOON_MS)).taken).toBe(false)
        expect(await levels()).toEqual([4, 1, 2])
      })
    })

    describe(`a hold that nobody releases`, () => {
      test('ends within its time, and lasts for seven eighths of it', async () => {
        const counter = open(1)
        await take(counter, 999)
        expect(await left(counter, 999 + 7 * SLICE_MS)).toBe(0)
        expect(await left(counter, HOLD_MS)).toBe(1)
        await take(counter, HOLD_MS)
        expect(await left(counter, 2 * HOLD_MS - 1)).toBe(0)
        expect(await left(counter, 2 * HOLD_MS)).toBe(1)
      })

      test('takes nothing with it when it is released too late', async () => {
        const counter = open(3)
        await take(counter, 0)
        // The slice of this one takes the place of the other's.
        await take(counter, HOLD_MS + 10)
        await release(counter, 0, HOLD_MS + 20)
        expect(await left(counter, HOLD_MS + 20)).toBe(2)
        await release(counter, 0, HOLD_MS + 20)
        await release(counter, HOLD_MS + 10, HOLD_MS + 30)
        expect(await left(counter, HOLD_MS + 30)).toBe(3)
      })

      test('is never released below nothing', async () => {
        const counter = open(2)
        await take(counter, 0)
        for (let i = 0; i < 3; i++) await release(counter, 0, 10)
        expect(await left(counter, 10)).toBe(2)
        await release(counter, 0, 10, 5)
        expect(await left(counter, 10)).toBe(2)
      })
    })

    describe(`a renewal`, () => {
      test('makes a hold last for another time', async () => {
        const counter = open(1)
        await take(counter, 0)
        let taken = await renew(counter, 0, 3000)
        expect(taken.wallMs).toBe(NOON_MS + 3000)
        expect(await left(counter, HOLD_MS + 100)).toBe(0)
        taken = await renew(counter, 3000, HOLD_MS + 500)
        expect(await left(counter, 2 * HOLD_MS - 1)).toBe(0)
        await release(counter, HOLD_MS + 500, 2 * HOLD_MS)
        expect(await left(counter, 2 * HOLD_MS)).toBe(1)
      })

      test('in the same slice changes nothing', async () => {
        const counter = open(2)
        await take(counter, 0)
        await renew(counter, 0, 900)
        expect(await left(counter, 950)).toBe(1)
        await release(counter, 900, 990)
        expect(await left(counter, 990)).toBe(2)
      })

      test('moves one hold, and leaves those beside it', async () => {
        const counter = open(3)
        await take(counter, 0)
        await take(counter, 1)
        await renew(counter, 0, 4000)
        expect(await left(counter, 4000)).toBe(1)
        expect(await left(counter, HOLD_MS)).toBe(2)
        expect(await left(counter, HOLD_MS + 4000)).toBe(3)
      })

      test('that comes too late takes again, above the limit if need be', async () => {
        const counter = open(1)
        await take(counter, 0)
        expect((await take(counter, HOLD_MS)).taken).toBe(true)
        await renew(counter, 0, HOLD_MS + 10)
        expect(await left(counter, HOLD_MS + 20)).toBe(-1)
        expect((await take(counter, HOLD_MS + 20)).taken).toBe(false)
        await release(counter, HOLD_MS + 10, HOLD_MS + 30)
        expect(await left(counter, HOLD_MS + 30)).toBe(0)
        await release(counter, HOLD_MS, HOLD_MS + 40)
        expect(await left(counter, HOLD_MS + 40)).toBe(1)
      })

      test('of what was never taken takes it', async () => {
        const counter = open(3)
        await take(counter, 0)
        await renew(counter, 0, 10, 'none')
        expect(await left(counter, 20)).toBe(1)
      })

      test('leaves counters of other kinds as they are', async () => {
        const [holds, bucket] = [open(2), openLimit(bucketLimit(2 ** -30, 10), 'b')]
        const rows = [row(bucket, 3), row(holds, 1)]
        await takeRows(store, rows, 0, NOON_MS)
        await renewRows(store, rows, { wallMs: NOON_MS, momentMs: NOON_MS, from: 'local' }, 4000, NOON_MS + 4000)
        const looks = rows.map((each) => ({ ...each, cost: 0 }))
        expect((await takeRows(store, looks, HOLD_MS, NOON_MS + HOLD_MS)).levels.map(Math.round)).toEqual([7, 1])
      })
    })

    describe(`a limit of requests in flight that changes`, () => {
      test('counts those that are in flight already', async () => {
        const before = open(4)
        for (let i = 0; i < 3; i++) await take(before, i)
        const smaller = open(2, 'a', 10)
        expect(await left(smaller, 10)).toBe(-1)
        expect((await take(smaller, 10)).taken).toBe(false)
        await release(smaller, 0, 20)
        await release(before, 1, 20)
        expect((await take(smaller, 20)).taken).toBe(true)
        expect((await take(smaller, 20)).taken).toBe(false)
        expect(await left(open(10, 'a', 30), 30)).toBe(8)
      })
    })

    describe(`a reset of requests in flight`, () => {
      const reset = (counter: Counter, atMs: number): Promise<void> => resetRows(store, [{ counter, values: ['x'] }], atMs, NOON_MS + atMs)

      test('forgets those of all slices', async () => {
        const counter = open(3)
        for (const atMs of [0, 1500, 4200]) await take(counter, atMs)
        await reset(counter, 4300)
        expect(await left(counter, 4400)).toBe(3)
      })

      test('lets those from before it neither count again nor make room', async () => {
        const counter = open(3)
        await take(counter, 0)
        await reset(counter, 100)
        await take(counter, 200)
        const renewed = await renew(counter, 0, 2000)
        expect(renewed).toMatchObject({ wallMs: NOON_MS, momentMs: NOON_MS })
        expect(await left(counter, 2000)).toBe(2)
        await release(counter, 0, 2100)
        expect(await left(counter, 2100)).toBe(2)
      })

      test('leaves those after it to their renewals', async () => {
        const counter = open(3)
        await take(counter, 0)
        await reset(counter, 100)
        await take(counter, 200)
        await renew(counter, 200, 3000)
        expect(await left(counter, HOLD_MS + 300)).toBe(2)
        await release(counter, 3000, HOLD_MS + 400)
        expect(await left(counter, HOLD_MS + 400)).toBe(3)
      })
    })
  })
}
