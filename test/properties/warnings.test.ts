import fc from 'fast-check'
import { expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { WINDOW, type WindowLimit } from '../../src/limiter/limit.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { resetRows, settleRows, takeRows } from '../support/store/charging.ts'
import { MapStore } from '../support/store/map-store.ts'

const MIDNIGHT_MS = Date.UTC(2026, 0, 15)
const HOUR_MS = 3_600_000

const amount = fc.oneof(fc.nat(100), fc.nat(1000))
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ take: amount }) },
  { weight: 4, arbitrary: fc.record({ settle: fc.integer({ min: -500, max: 500 }) }) },
  { weight: 1, arbitrary: fc.record({ size: fc.integer({ min: 1, max: 20 }).map((tens) => tens * 100) }) },
  { weight: 1, arbitrary: fc.constant({ reset: true }) },
  { weight: 1, arbitrary: fc.record({ hours: fc.constantFrom(0.25, 1) }) },
)
const percents = fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 5 }).map((list) => list.sort((a, b) => a - b))

test('any takes, settlements, resets and changes of the limit warn as a Map does, and never twice of a share in a window', async () => {
  await fc.assert(
    fc.asyncProperty(percents, fc.array(step, { maxLength: 40 }), async (shares, steps) => {
      expect(await warned(newEmbeddedStore(64 * 1024), shares, steps)).toEqual(await warned(new MapStore(), shares, steps))
    }),
  )
})

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** The warnings of each step. */
async function warned(store: CounterStore, shares: readonly number[], steps: readonly Step[]): Promise<number[][]> {
  let counter = store.open({ identity: ['a'], limit: warningLimit(1000, shares), sinceMs: 0, isSettled: true })
  let wallMs = MIDNIGHT_MS
  const all: number[][] = []
  for (const each of steps) {
    const found: number[] = []
    wallMs++
    if ('take' in each) found.push(...((await takeRows(store, [{ counter, cost: each.take }], 0, wallMs)).warnings ?? []))
    else if ('settle' in each) {
      await settleRows(store, [{ counter, cost: each.settle }], 0, wallMs, wallMs, (_row, percent) => found.push(percent))
    } else if ('size' in each)
      counter = store.open({ identity: ['a'], limit: warningLimit(each.size, shares), sinceMs: 0, isSettled: true })
    else if ('reset' in each) await resetRows(store, [{ counter }], 0, wallMs)
    else wallMs += each.hours * HOUR_MS
    all.push(found)
  }
  return all
}

function warningLimit(tokens: number, shares: readonly number[]): WindowLimit {
  const warnings = shares.map((percent) => ({ percent, tokens: (tokens / 100) * percent }))
  return { kind: WINDOW, tokens, calendar: calendarOf('1h', 'UTC'), warnings }
}
