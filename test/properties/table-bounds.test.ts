import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import { type EmbeddedStore, newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { MIN_TABLE_BYTES } from '../../src/store/table/table-layout.ts'
import { anyShare } from '../support/random/numbers.ts'
import { sized } from '../support/run/property-runs.ts'
import { bucketLimit, dayLimit, overdrawn, takeRowsNow } from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const UNTIL_MIDNIGHT_MS = 12 * 3600 * 1000

test('a table of any size holds no more than its slots, and counts each counter that had to go', () => {
  const takes = fc.array(fc.tuple(fc.nat(199), anyShare), { maxLength: 300 })
  fc.assert(
    fc.property(fc.integer({ min: MIN_TABLE_BYTES, max: MIN_TABLE_BYTES + 8 * 1024 }), takes, (bytes, list) => {
      const store = newEmbeddedStore(bytes)
      const counter = openBucket(store, 100)
      let claims = 0
      for (const [key, share] of list) {
        // At one instant, only a counter that the table does not hold is full.
        const isNew = levelOf(store, counter, `k${key}`) === 100
        if (take(store, counter, `k${key}`, 1 + Math.floor(share * 20)) && isNew) claims++
        const { slots, occupiedSlots, forcedEvictions } = store.stats()
        expect(occupiedSlots).toBeLessThanOrEqual(slots)
        expect(occupiedSlots + forcedEvictions).toBe(claims)
      }
    }),
  )
})

test('counters that are full again make room, and none of them counts as forced', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 32 }), fc.integer({ min: 1, max: 100 }), (count, spent) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const counter = openBucket(store, 100)
      for (let i = 0; i < 32; i++) take(store, counter, `old${i}`, spent, 0)
      const fullAgainMs = 101 // a token a ms, and a little for rounding
      for (let i = 0; i < count; i++) take(store, counter, `new${i}`, 1, fullAgainMs)
      expect(store.stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
      for (let i = 0; i < count; i++) expect(levelOf(store, counter, `new${i}`, fullAgainMs)).toBe(99)
    }),
  )
})

test('days that are over make room, and none of them counts as forced', () => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const day = store.open({ identity: ['day'], limit: dayLimit(1000), sinceMs: 0 })
  const bucket = openBucket(store, 100)
  for (let i = 0; i < 32; i++) take(store, day, `d${i}`, 500)
  for (let i = 0; i < 32; i++) take(store, bucket, `b${i}`, 50, UNTIL_MIDNIGHT_MS)
  expect(store.stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
})

test('any flood of keys that have spent little leaves buckets and windows alone that have spent more', () => {
  fc.assert(
    fc.property(
      // Of the rule whose records last less long, three: so few have room beside any flood.
      fc.integer({ min: 1, max: 6 }),
      fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 49 })), { maxLength: 200 }),
      (half, flood) => {
        const store = newEmbeddedStore(MIN_TABLE_BYTES)
        const counters = [openBucket(store, 100), store.open({ identity: ['day'], limit: dayLimit(100), sinceMs: 0 })]
        for (let i = 0; i < half; i++) take(store, counters[i % 2]!, `half${i}`, 50)
        for (const [i, [isDay, cost]] of flood.entries()) take(store, counters[isDay ? 1 : 0]!, `b${i}`, cost)
        for (let i = 0; i < half; i++) expect(levelOf(store, counters[i % 2]!, `half${i}`)).toBe(50)
        expect(store.stats().forcedEvictions).toBe(Math.max(0, flood.length - (32 - half)))
      },
    ),
  )
})

test('a flood of callers with one request each in a window leaves half-spent buckets, windows and debts alive, in a table of many sets', () => {
  const store = newEmbeddedStore(64 * 1024)
  const open = (name: string, limit: Limit): Counter => store.open({ identity: [name], limit, sinceMs: 0 })
  const kept = [open('bucket', bucketLimit(1e-9, 10)), open('day', dayLimit(10)), open('debt', overdrawn(dayLimit(10)))]
  const flood = open('flood', dayLimit(10))
  const { slots } = store.stats()
  const keys = Array.from({ length: Math.floor(slots / 8) }, (_, i) => `half${i}`)
  for (const [i, key] of keys.entries()) take(store, kept[i % 3]!, key, i % 3 === 2 ? 25 : 5)
  const flooding = sized(5, 20) * slots
  for (let i = 0; i < flooding; i++) take(store, flood, `flood${i}`, 1)
  expect(store.stats()).toMatchObject({ occupiedSlots: slots, forcedEvictions: flooding + keys.length - slots })
  expect(keys.map((key, i) => levelOf(store, kept[i % 3]!, key))).toEqual(keys.map((_, i) => (i % 3 === 2 ? -15 : 5)))
})

test('a flood of new keys evicts itself, not those who have spent more', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 31 }), fc.integer({ min: 1, max: 300 }), (heavy, flood) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const counter = openBucket(store, 100)
      for (let i = 0; i < heavy; i++) take(store, counter, `heavy${i}`, 2 + i)
      for (let i = 0; i < flood; i++) take(store, counter, `light${i}`, 1)
      for (let i = 0; i < heavy; i++) expect(levelOf(store, counter, `heavy${i}`)).toBe(98 - i)
    }),
  )
})

test('the counters of one decision are never evicted for one another', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 32 }), fc.integer({ min: 0, max: 100 }), (rows, others) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const counter = openBucket(store, 100)
      for (let i = 0; i < others; i++) take(store, counter, `other${i}`, 50)
      const charges = Array.from({ length: rows }, (_, i) => ({ counter, values: [`mine${i}`], cost: 1 + i }))
      expect(takeRowsNow(store, charges, 0, NOON_MS).taken).toBe(true)
      for (const { values, cost } of charges) expect(levelOf(store, counter, values[0]!)).toBe(100 - cost)
    }),
  )
})

test('a decision with more counters than there are slots is answered, the table stays whole, and those without room are counted', () => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const counter = openBucket(store, 100)
  const charges = Array.from({ length: 100 }, (_, i) => ({ counter, values: [`k${i}`], cost: 1 }))
  const { taken, levels } = takeRowsNow(store, charges, 0, NOON_MS)
  expect(taken).toBe(true)
  expect(new Set(levels)).toEqual(new Set([99]))
  expect(store.stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 68 })
})

/** A token a millisecond. */
function openBucket(store: EmbeddedStore, burst: number): Counter {
  return store.open({ identity: ['bucket'], limit: bucketLimit(1, burst), sinceMs: 0 })
}

function take(store: EmbeddedStore, counter: Counter, key: string, cost: number, nowMs = 0): boolean {
  return takeRowsNow(store, [{ counter, values: [key], cost }], nowMs, NOON_MS + nowMs).taken === true
}

function levelOf(store: EmbeddedStore, counter: Counter, key: string, nowMs = 0): number {
  return takeRowsNow(store, [{ counter, values: [key], cost: 0 }], nowMs, NOON_MS + nowMs).levels[0]!
}
