import { beforeEach, describe, expect, test } from 'vitest'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, takeRows } from '../support/store/charging.ts'

/** What every store must do when a known counter is opened again with another rate or burst. */
export function describeLimitChange(name: string, newStore: () => CounterStore | Promise<CounterStore>): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(tokensPerMs: number, burst: number, sinceMs: number): Counter {
      return store.open({ identity: ['policy', 'rule'], limit: bucketLimit(tokensPerMs, burst), sinceMs })
    }

    async function levelAfter(counter: Counter, cost: number, nowMs: number): Promise<number> {
      const { levels } = await takeRows(store, [{ counter, values: ['caller'], cost }], nowMs)
      return levels[0]!
    }

    describe(`a change of rate or burst`, () => {
      test('keeps spent tokens spent', async () => {
        await levelAfter(open(0.5, 10, 0), 8, 100)
        expect(await levelAfter(open(0.5, 20, 100), 0, 100)).toBe(2)
      })

      test('refills at the old rate until it, and at the new one from then on', async () => {
        await levelAfter(open(0.5, 100, 0), 100, 0)
        const faster = open(4, 100, 20)
        expect(await levelAfter(faster, 0, 20)).toBe(10)
        expect(await levelAfter(faster, 0, 25)).toBe(30)
      })

      test('refills up to the old burst until it, and up to the new one from then on', async () => {
        await levelAfter(open(1, 10, 0), 10, 0)
        const larger = open(1, 50, 1000)
        expect(await levelAfter(larger, 0, 1000)).toBe(10)
        expect(await levelAfter(larger, 0, 1015)).toBe(25)
        expect(await levelAfter(larger, 0, 9999)).toBe(50)
      })

      test('to a smaller burst cuts the level to it', async () => {
        await levelAfter(open(0.5, 100, 0), 10, 0)
        const smaller = open(0.5, 20, 4)
        expect(await levelAfter(smaller, 5, 4)).toBe(15)
        expect(await levelAfter(smaller, 0, 100)).toBe(20)
      })

      test('gives the refill before it once, however often the level is looked at and taken from afterwards', async () => {
        await levelAfter(open(0.5, 100, 0), 100, 0)
        const changed = open(2, 100, 10)
        expect(await levelAfter(changed, 1, 11)).toBe(6)
        expect(await levelAfter(changed, 1, 11)).toBe(5)
        expect(await levelAfter(changed, 0, 12)).toBe(7)
      })

      test('and back again keeps spent tokens spent', async () => {
        await levelAfter(open(0.5, 10, 0), 10, 0)
        expect(await levelAfter(open(0.5, 1000, 4), 1, 4)).toBe(1)
        expect(await levelAfter(open(0.5, 10, 8), 0, 12)).toBe(5)
      })

      test('that is none, the same limit opened again, changes nothing', async () => {
        await levelAfter(open(0.5, 10, 0), 10, 0)
        expect(await levelAfter(open(0.5, 10, 6), 0, 10)).toBe(5)
      })

      test('and decisions that still hold the counter from before it share one level', async () => {
        const before = open(0.5, 10, 0)
        await levelAfter(before, 10, 0)
        const after = open(1, 20, 10)
        expect(await levelAfter(before, 4, 12)).toBe(2)
        expect(await levelAfter(after, 1, 13)).toBe(2)
        expect(await levelAfter(before, 0, 15)).toBe(3)
      })

      test('grants the refill before it once to a decision whose clock is not there yet', async () => {
        await levelAfter(open(0.5, 100, 0), 100, 0)
        const changed = open(2, 100, 20)
        expect(await levelAfter(changed, 10, 18)).toBe(0)
        expect(await levelAfter(changed, 0, 20)).toBe(0)
        expect(await levelAfter(changed, 0, 21)).toBe(2)
      })
    })
  })
}
