import { beforeEach, describe, expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import {
  bucketLimit,
  checkRows,
  dayLimit,
  overdrawn,
  type Row,
  resetRows,
  settleRows,
  type Taken,
  type TokenLimit,
  takeRows,
} from '../support/store/charging.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000

const LIMITS: [string, TokenLimit, waitMs: number][] = [
  // 15 below zero at half a token a millisecond, and a millisecond more
  ['bucket', overdrawn(bucketLimit(0.5, 10)), 31],
  ['day', overdrawn(dayLimit(10)), DAY_MS],
]

/** What every store must do with limits that a request may overdraw. */
export function describeOverdraft(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(identity: string, limit: Limit, sinceMs = 0): Counter {
      // As a rule has it that takes one: such a counter would be leased if it could not be overdrawn.
      return store.open({ identity: [identity], limit, sinceMs, isLeasable: true })
    }

    function take(counter: Counter, cost: number, nowMs: number, wallMs = MIDNIGHT_MS): Promise<Taken> {
      return takeRows(store, [{ counter, cost }], nowMs, wallMs)
    }

    describe.each(LIMITS)(`a %s that can be overdrawn`, (_, limit, waitMs) => {
      test('takes whatever a request costs while anything is left', async () => {
        const counter = open('a', limit)
        expect(await take(counter, 9, 0)).toEqual({ taken: true, levels: [1], waitsMs: [0] })
        expect(await take(counter, 16, 0)).toEqual({ taken: true, levels: [-15], waitsMs: [0] })
      })

      test('refuses while it is below zero, takes nothing then, and names the wait', async () => {
        const counter = open('a', limit)
        await take(counter, 25, 0)
        for (const cost of [1, 0, 1000]) expect(await take(counter, cost, 0)).toEqual({ taken: false, levels: [-15], waitsMs: [waitMs] })
      })

      test('refuses at zero too, even what takes nothing', async () => {
        const counter = open('a', limit)
        expect(await take(counter, 10, 0)).toEqual({ taken: true, levels: [0], waitsMs: [0] })
        const { taken, levels, waitsMs } = await take(counter, 0, 0)
        expect([taken, levels]).toEqual([false, [0]])
        expect(waitsMs[0]).toBeGreaterThan(0)
      })

      test('lets a request pass that takes nothing while anything is left', async () => {
        const counter = open('a', limit)
        await take(counter, 9.5, 0)
        expect(await take(counter, 0, 0)).toEqual({ taken: true, levels: [0.5], waitsMs: [0] })
      })

      test('never waits for NEVER: a cost above its size is taken', async () => {
        expect(await take(open('a', limit), 1000, 0)).toEqual({ taken: true, levels: [-990], waitsMs: [0] })
      })

      test('is checked as it would be taken from', async () => {
        const counter = open('a', limit)
        const check = (cost: number): Promise<Taken> => checkRows(store, [{ counter, cost }], 0, MIDNIGHT_MS)
        expect(await check(25)).toEqual({ taken: true, levels: [10], waitsMs: [0] })
        await take(counter, 25, 0)
        expect(await check(0)).toEqual({ taken: false, levels: [-15], waitsMs: [waitMs] })
      })

      test('takes nothing where another counter refuses, and others take nothing where it does', async () => {
        const [over, plain] = [open('a', limit), open('b', bucketLimit(0.5, 10))]
        const rows = (cost: number): Row[] => [
          { counter: over, cost },
          { counter: plain, cost },
        ]
        expect(await takeRows(store, rows(11), 0, MIDNIGHT_MS)).toMatchObject({ taken: false, levels: [10, 10] })
        await take(over, 25, 0)
        expect(await takeRows(store, rows(1), 0, MIDNIGHT_MS)).toEqual({ taken: false, levels: [-15, 10], waitsMs: [waitMs, 0] })
      })

      test('is charged by a settlement even while it is over, and paid by one', async () => {
        const counter = open('a', limit)
        await take(counter, 15, 0)
        await settleRows(store, [{ counter, cost: -10 }], 0, MIDNIGHT_MS)
        expect(await take(counter, 1, 0)).toMatchObject({ taken: false, levels: [-15] })
        await settleRows(store, [{ counter, cost: 16 }], 0, MIDNIGHT_MS)
        expect(await take(counter, 3, 0)).toMatchObject({ taken: true, levels: [-2] })
      })

      test('forgets its debt when it is reset', async () => {
        const counter = open('a', limit)
        await take(counter, 25, 0)
        await resetRows(store, [{ counter }], 1, MIDNIGHT_MS + 1)
        expect(await take(counter, 4, 2, MIDNIGHT_MS + 2)).toEqual({ taken: true, levels: [6], waitsMs: [0] })
      })

      test('keeps its count when the limit can no longer be overdrawn, and when it can again', async () => {
        await take(open('a', limit), 25, 0)
        const plain = open('a', { ...limit, canOverdraw: false }, 0)
        expect(await take(plain, 0, 0)).toEqual({ taken: true, levels: [-15], waitsMs: [0] })
        expect((await take(plain, 1, 0)).taken).toBe(false)
        expect(await take(open('a', limit), 0, 0)).toEqual({ taken: false, levels: [-15], waitsMs: [waitMs] })
      })
    })

    describe(`a debt`, () => {
      test('of a bucket is refilled, and a request passes after the wait that was named', async () => {
        const counter = open('a', overdrawn(bucketLimit(0.25, 10)))
        await take(counter, 15, 1000)
        expect((await take(counter, 1, 1008)).waitsMs).toEqual([13])
        expect(await take(counter, 1, 1020)).toMatchObject({ taken: false, levels: [0] })
        expect(await take(counter, 1, 1021)).toEqual({ taken: true, levels: [-0.75], waitsMs: [0] })
      })

      test('of a window ends with it', async () => {
        const counter = open('a', overdrawn(dayLimit(10)))
        await take(counter, 1000, 0)
        expect((await take(counter, 1, 0, MIDNIGHT_MS + DAY_MS - 1)).waitsMs).toEqual([1])
        expect(await take(counter, 1, 0, MIDNIGHT_MS + DAY_MS)).toEqual({ taken: true, levels: [9], waitsMs: [0] })
      })
    })
  })
}
