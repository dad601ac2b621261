import fc from 'fast-check'
import { expect, test } from 'vitest'
import { algorithmOf } from '../../src/limiter/algorithms/algorithms.ts'
import { BUCKET, type BucketLimit, canOverdraw, type Limit, WINDOW } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { anyBurst, anyRate, anyShare, exactBurst, exactRate } from '../support/random/numbers.ts'
import { bucketLimit, dayLimit, overdrawn, type Row, type Taken, takeRowsNow } from '../support/store/charging.ts'
import { MapStore } from '../support/store/map-store.ts'

/** Room for some seven thousand counters: more than any run here opens. */
const AMPLE_BYTES = 256 * 1024

interface Charge {
  readonly counter: number
  readonly values: readonly string[]
  /** As a share of the limit's size; above 1 it can never be covered. */
  readonly share: number
}

interface Step {
  readonly charges: readonly Charge[]
  readonly gapMs: number
  readonly wallGapMs: number
  /** Gives a counter another rate, another size, another way to refuse, or several of these before anything is taken. */
  readonly change?: Change | undefined
}

interface Change {
  readonly counter: number
  readonly rate?: number
  readonly size?: number
  readonly isOverdrawn?: boolean
}

const COUNTERS = 5

// Few different texts, so that keys meet; odd ones, so that they could be taken for one another.
const values = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom([], ['a']) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom('', 'a', 'b', 'ab', '\0', 'é', '€'), { maxLength: 2 }) },
)
// Mostly small, so that most decisions are covered and leave something behind.
const share = fc.oneof(
  { weight: 20, arbitrary: anyShare.map((part) => part / 16) },
  { weight: 4, arbitrary: anyShare },
  { weight: 2, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.constant(1) },
  { weight: 1, arbitrary: fc.constant(1.5) },
)
const charge = fc.record({ counter: fc.nat(COUNTERS - 1), values, share })
const selector = ({ counter, values: list }: Charge): string => JSON.stringify([counter, list])
const charges = fc.oneof(fc.uniqueArray(charge, { maxLength: 4, selector }), fc.uniqueArray(charge, { maxLength: 24, selector }))
const gapMs = fc.oneof(fc.nat(50), fc.nat(5000), fc.integer({ min: -2000, max: 0 }))
const wallGapMs = fc.oneof(fc.nat(1000), fc.integer({ min: -100_000_000, max: 100_000_000 }))

function limitsOf(rate: fc.Arbitrary<number>, burst: fc.Arbitrary<number>): fc.Arbitrary<Limit> {
  const limit = fc.oneof(
    fc.tuple(rate, burst).map(([r, b]) => bucketLimit(r, b)),
    fc.integer({ min: 1, max: 2 ** 20 }).map(dayLimit),
  )
  return fc.tuple(limit, fc.boolean()).map(([each, isOverdrawn]) => (isOverdrawn ? overdrawn(each) : each))
}

test('any takes at any times give the same answers, levels and waits as a Map', () => {
  const limits = fc.array(limitsOf(anyRate, anyBurst), { minLength: COUNTERS, maxLength: COUNTERS })
  const step = fc.record({ charges, gapMs, wallGapMs })
  fc.assert(
    fc.property(limits, fc.array(step, { maxLength: 40 }), (limit, steps) => {
      expectSameAnswers(limit, steps, (cost) => cost)
    }),
  )
})

test('limits that change on the way give the same answers, levels and waits as a Map', () => {
  const limits = fc.array(exactLimit, { minLength: COUNTERS, maxLength: COUNTERS })
  const parts = { counter: fc.nat(COUNTERS - 1), rate: exactRate, size: exactBurst, isOverdrawn: fc.boolean() }
  const change = fc.option(fc.record(parts, { requiredKeys: ['counter'] }), { nil: undefined })
  const step = fc.record({ charges, gapMs, wallGapMs, change })
  fc.assert(
    fc.property(limits, fc.array(step, { maxLength: 40 }), (limit, steps) => {
      expectSameAnswers(limit, steps, (cost) => Math.round(cost * 8) / 8)
    }),
  )
})

test('a decision that is refused leaves every level as it was', () => {
  const limits = fc.array(limitsOf(anyRate, anyBurst), { minLength: COUNTERS, maxLength: COUNTERS })
  fc.assert(
    fc.property(limits, fc.array(charges, { maxLength: 20 }), (limit, decisions) => {
      const store = newEmbeddedStore(AMPLE_BYTES)
      const counters = limit.map((each, i) => store.open({ identity: [String(i)], limit: each, sinceMs: 0 }))
      for (const decision of decisions) {
        const rows = rowsOf(decision, limit, counters, (cost) => cost)
        const looks = rows.map((row) => ({ ...row, cost: 0 }))
        const before = takeRowsNow(store, looks, 1000).levels
        const { taken, levels } = takeRowsNow(store, rows, 1000)
        expect(levels).toEqual(taken ? before.map((level, i) => level - rows[i]!.cost) : before)
        expect(takeRowsNow(store, looks, 1000).levels).toEqual(levels)
      }
    }),
  )
})

/** Rates and sizes that every store keeps without rounding. */
const exactLimit = limitsOf(exactRate, exactBurst)

function expectSameAnswers(limits: readonly Limit[], steps: readonly Step[], round: (cost: number) => number): void {
  const [store, model] = [newEmbeddedStore(AMPLE_BYTES), new MapStore()]
  const current = [...limits]
  const open = (from: CounterStore, i: number, sinceMs: number): Counter =>
    from.open({ identity: ['counter', String(i)], limit: current[i]!, sinceMs })
  const opened = current.map((_, i) => open(store, i, 0))
  const modelled = current.map((_, i) => open(model, i, 0))
  let nowMs = 0
  let wallMs = Date.UTC(2026, 0, 15)
  for (const { charges, gapMs, wallGapMs, change } of steps) {
    nowMs += gapMs
    wallMs += wallGapMs
    if (change) {
      current[change.counter] = changed(current[change.counter]!, change)
      opened[change.counter] = open(store, change.counter, nowMs)
      modelled[change.counter] = open(model, change.counter, nowMs)
    }
    const answer = takeRowsNow(store, rowsOf(charges, current, opened, round), nowMs, wallMs)
    expectSame(answer, takeRowsNow(model, rowsOf(charges, current, modelled, round), nowMs, wallMs))
  }
  expect(store.stats()).toMatchObject({ occupiedSlots: model.stats().occupiedSlots, forcedEvictions: 0 })
}

function changed(limit: Limit, { rate, size, isOverdrawn }: Change): Limit {
  const { tokensPerMs, burst } = limit as BucketLimit
  const plain =
    limit.kind === WINDOW ? dayLimit(size === undefined ? limit.tokens : Math.ceil(size)) : bucketLimit(rate ?? tokensPerMs, size ?? burst)
  return (isOverdrawn ?? canOverdraw(limit)) ? overdrawn(plain) : plain
}

function rowsOf(
  charges: readonly Charge[],
  limits: readonly Limit[],
  counters: readonly Counter[],
  round: (cost: number) => number,
): Row[] {
  return charges.map(({ counter, values, share }) => {
    const limit = limits[counter]!
    const cost = limit.kind === BUCKET ? round(limit.burst * share) : Math.round(algorithmOf(limit).size(limit) * share)
    return { counter: counters[counter]!, values, cost }
  })
}

function expectSame(answer: Taken, expected: Taken): void {
  expect(answer.taken).toBe(expected.taken)
  expect(answer.levels).toEqual(expected.levels)
  for (const [row, waitMs] of answer.waitsMs.entries()) {
    const expectedMs = expected.waitsMs[row]!
    // The store may lengthen a wait by the last bits of it, so that it is never too short.
    if (waitMs !== expectedMs) expect(waitMs / expectedMs).toBeCloseTo(1, 12)
  }
}
