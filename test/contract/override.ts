import { beforeEach, describe, expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { bucketLimit, dayLimit, inFlightLimit, settleRows, takeRows } from '../support/store/charging.ts'

/** What every store must do when an override changes a counter's limit from a moment on. `isShared`: by instances that may learn of it late. */
export function describeOverride(name: string, newStore: () => CounterStore | Promise<CounterStore>, isShared = false): void {
  describe(name, () => {
    let store: CounterStore

    beforeEach(async () => {
      store = await newStore()
    })

    function open(limit: Limit): Counter {
      return store.open({ identity: ['policy', 'rule'], limit, sinceMs: 0 })
    }

    /** A bucket under an override of one of `ruleSize`, from `momentMs` on. */
    function overridden(tokensPerMs: number, burst: number, ruleSize: number, momentMs: number): Counter {
      const limit = { ...bucketLimit(tokensPerMs, burst), raisedFrom: ruleSize }
      const override = { momentMs, untilMs: momentMs + 1_000_000, ruleSize }
      return store.open({ identity: ['policy', 'rule'], limit, sinceMs: momentMs, override })
    }

    async function levelAfter(counter: Counter, cost: number, nowMs: number): Promise<number> {
      const { levels } = await takeRows(store, [{ counter, values: ['caller'], cost }], nowMs, nowMs)
      return levels[0]!
    }

    describe(`an override of a limit`, () => {
      test('adds what it raises to what is left', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 10, 100)
        expect(await levelAfter(overridden(1e-9, 30, 10, 200), 5, 250)).toBeCloseTo(15)
      })

      test('refills by the rule’s own limit until its moment, and by its own from then on', async () => {
        await levelAfter(open(bucketLimit(0.5, 10)), 10, 100)
        const faster = overridden(2, 40, 10, 110)
        expect(await levelAfter(faster, 0, 110)).toBeCloseTo(35)
        await levelAfter(faster, 30, 110)
        expect(await levelAfter(faster, 0, 120)).toBeCloseTo(25)
      })

      test('adds it once, whoever asks in between', async () => {
        const own = open(bucketLimit(1e-9, 10))
        await levelAfter(own, 10, 100)
        const raised = overridden(1e-9, 30, 10, 200)
        expect(await levelAfter(raised, 18, 200)).toBeCloseTo(2)
        expect(await levelAfter(raised, 1, 201)).toBeCloseTo(1)
        // Opened again, as by another thread or a new plan.
        expect(await levelAfter(overridden(1e-9, 30, 10, 200), 1, 202)).toBeCloseTo(0)
      })

      test('adds it to what was taken after its moment only where some may learn of it late, and then once', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 10, 300)
        const raised = overridden(1e-9, 30, 10, 200)
        expect(await levelAfter(raised, isShared ? 5 : 0, 301)).toBeCloseTo(isShared ? 15 : 0)
        expect(await levelAfter(raised, 0, 302)).toBeCloseTo(isShared ? 15 : 0)
      })

      test('that cuts caps what is left, and adds nothing', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 2, 100)
        expect(await levelAfter(overridden(1e-9, 5, 10, 200), 1, 200)).toBeCloseTo(4)
      })

      test('is full for a caller that has taken nothing', async () => {
        expect(await levelAfter(overridden(1e-9, 30, 10, 200), 1, 200)).toBeCloseTo(29)
      })

      test('that takes the place of another adds what it adds to that', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 10, 100)
        expect(await levelAfter(overridden(1e-9, 20, 10, 200), 0, 200)).toBeCloseTo(10)
        await levelAfter(overridden(1e-9, 20, 10, 200), 1, 200)
        expect(await levelAfter(overridden(1e-9, 30, 10, 300), 0, 300)).toBeCloseTo(19)
      })

      test('gives no more after a cut than without it', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 10, 100)
        await levelAfter(overridden(1e-9, 5, 10, 200), 0, 200)
        expect(await levelAfter(overridden(1e-9, 30, 10, 300), 0, 300)).toBeCloseTo(20)
      })

      test('gives back what was taken, up to its own size', async () => {
        await levelAfter(open(bucketLimit(1e-9, 10)), 4, 100)
        const raised = overridden(1e-9, 30, 10, 200)
        await levelAfter(raised, 5, 200)
        await settleRows(store, [{ counter: raised, values: ['caller'], cost: 100 }], 201, 201)
        expect(await levelAfter(raised, 0, 201)).toBeCloseTo(30)
      })

      test('of a window or of requests in flight leaves what is used used', async () => {
        for (const [own, raised] of [
          [dayLimit(10), dayLimit(30)],
          [inFlightLimit(10, 1000), inFlightLimit(30, 1000)],
        ] as const) {
          const row = (limit: Limit) => [{ counter: store.open({ identity: ['p', String(limit.kind)], limit, sinceMs: 0 }), cost: 10 }]
          expect(await takeRows(store, row(own), 100, 100)).toMatchObject({ taken: true, levels: [0] })
          expect(await takeRows(store, row(raised), 100, 100)).toMatchObject({ taken: true, levels: [10] })
          expect(await takeRows(store, row(own), 100, 100)).toMatchObject({ taken: false })
        }
      })
    })
  })
}
