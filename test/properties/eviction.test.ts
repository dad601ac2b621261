import fc from 'fast-check'
import { expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { type Limit, WINDOW } from '../../src/limiter/limit.ts'
import type { Counter } from '../../src/store/charges.ts'
import { type EmbeddedStore, newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { MIN_TABLE_BYTES, WAYS } from '../../src/store/table/table-layout.ts'
import { copyLive, RecordBatch, restore } from '../../src/store/table/table-records.ts'
import { runs, sized } from '../support/run/property-runs.ts'
import { bucketLimit, takeRowsNow } from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const SIZE = 1000

// From milliseconds to years: which of two rules lasts longer must not matter.
const anyLimit = fc.oneof(
  fc.constantFrom<Parameters<typeof calendarOf>[0]>('1m', '1h', '1d', '1mo', '1y').map(windowLimit),
  fc.integer({ min: -8, max: 3 }).map((power): Limit => bucketLimit(10 ** power, SIZE)),
)
const anyCost = fc.integer({ min: 1, max: SIZE })

test('no number of made-up keys of one rule changes a counter of another that has no more than its share', () => {
  const kept = fc.array(fc.tuple(anyLimit, fc.array(anyCost, { maxLength: WAYS })), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(kept, anyLimit, fc.array(anyCost, { minLength: 1, maxLength: 200 }), (rules, floodLimit, flood) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const share = Math.floor(WAYS / (rules.length + 1))
      const counters = rules.flatMap(([limit, costs], rule) => {
        const counter = open(store, `kept${rule}`, limit)
        return costs.slice(0, share).map((cost, key) => ({ counter, key: `key${key}`, cost }))
      })
      for (const { counter, key, cost } of counters) take(store, counter, key, cost)
      const flooded = open(store, 'flooded', floodLimit)
      for (const [i, cost] of flood.entries()) take(store, flooded, `made-up${i}`, cost)
      for (const { counter, key, cost } of counters) expect(leftOf(store, counter, key)).toBe(SIZE - cost)
      expect(store.stats().forcedEvictions).toBe(Math.max(0, counters.length + flood.length - WAYS))
    }),
    { numRuns: runs(30) },
  )
})

test('a flood in a table of many sets leaves budgets that are nearly used up as they are', () => {
  const store = newEmbeddedStore(48 * 1024)
  const { slots } = store.stats()
  const [budget, login] = [open(store, 'budget', windowLimit('1mo')), open(store, 'login', bucketLimit(1 / 3_600_000, 1))]
  const teams = Array.from({ length: slots / 4 }, (_, i) => `team${i}`)
  for (const team of teams) take(store, budget, team, 990)
  for (let i = 0; i < sized(2, 20) * slots; i++) take(store, login, `made-up${i}`, 1)
  expect(teams.filter((team) => leftOf(store, budget, team) !== 10)).toEqual([])
  expect(store.stats().forcedEvictions).toBeGreaterThan(slots / 2)
})

test('however long the records of a flood last, callers of another rule are counted', () => {
  fc.assert(
    fc.property(anyLimit, anyLimit, fc.integer({ min: WAYS, max: 100 }), anyCost, (floodLimit, limit, flood, cost) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const [flooded, counter] = [open(store, 'flooded', floodLimit), open(store, 'rule', limit)]
      for (let i = 0; i < flood; i++) take(store, flooded, `made-up${i}`, cost)
      const callers = ['a', 'b', 'c', 'd']
      for (const caller of callers) take(store, counter, caller, 300)
      for (let i = 0; i < flood; i++) take(store, flooded, `more${i}`, cost)
      expect(callers.map((caller) => leftOf(store, counter, caller))).toEqual([700, 700, 700, 700])
    }),
    { numRuns: runs(20) },
  )
})

test('a flood that has most of a set makes room for callers of others, whoever else is there and however long its records last', () => {
  const others = fc.array(anyLimit, { maxLength: 12 })
  fc.assert(
    fc.property(others, anyLimit, anyLimit, anyCost, (limits, floodLimit, limit, cost) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const kept = limits.map((each, i) => open(store, `other${i % 3}`, each))
      for (const [i, counter] of kept.entries()) take(store, counter, `other${i}`, cost)
      const [flooded, counter] = [open(store, 'flooded', floodLimit), open(store, 'rule', limit)]
      for (let i = 0; i < 2 * WAYS; i++) take(store, flooded, `made-up${i}`, cost)
      const callers = ['a', 'b', 'c', 'd']
      for (const caller of callers) take(store, counter, caller, 300)
      for (let i = 0; i < WAYS; i++) take(store, flooded, `more${i}`, cost)
      expect(callers.map((caller) => leftOf(store, counter, caller))).toEqual([700, 700, 700, 700])
    }),
    { numRuns: runs(20) },
  )
})

test('two rules that need more than there is get half of a set each, and keep what is spent most', () => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const rules = [open(store, 'login', windowLimit('1h')), open(store, 'budget', windowLimit('1mo'))]
  for (const rule of rules) for (let i = 0; i < WAYS; i++) take(store, rule, `caller${i}`, 1 + i)
  for (const rule of rules) {
    const counted = Array.from({ length: WAYS }, (_, i) => leftOf(store, rule, `caller${i}`) < SIZE)
    expect(counted).toEqual(counted.map((_, i) => i >= WAYS / 2))
  }
})

test('in a table full of budgets the newcomer is the victim: no budget changes, and each is counted', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: WAYS }), fc.integer({ min: 1, max: 100 }), (rules, newcomers) => {
      const store = newEmbeddedStore(MIN_TABLE_BYTES)
      const budgets = Array.from({ length: rules }, (_, i) => open(store, `budget${i}`, windowLimit('1mo')))
      for (let i = 0; i < WAYS; i++) take(store, budgets[i % rules]!, `team${i}`, 990)
      const login = open(store, 'login', windowLimit('1h'))
      for (let i = 0; i < newcomers; i++) {
        take(store, login, `user${i}`, SIZE)
        expect(leftOf(store, login, `user${i}`)).toBe(SIZE)
      }
      for (let i = 0; i < WAYS; i++) expect(leftOf(store, budgets[i % rules]!, `team${i}`)).toBe(10)
      expect(store.stats()).toEqual({ slots: WAYS, occupiedSlots: WAYS, forcedEvictions: newcomers })
    }),
    { numRuns: runs(10) },
  )
})

test('restored records belong to their rule again as soon as that has asked for them, even if it rejects', () => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const [budget, other, flooded] = [
    open(store, 'budget', windowLimit('1d')),
    open(store, 'other', windowLimit('1mo')),
    open(store, 'flooded', windowLimit('1y')),
  ]
  const teams = Array.from({ length: 10 }, (_, i) => `team${i}`)
  for (const team of teams) take(store, budget, team, 990)
  for (let i = teams.length; i < WAYS; i++) take(store, other, `caller${i}`, 1)
  restoreAll(store)
  for (const team of teams) expect(takeRowsNow(store, [{ counter: budget, values: [team], cost: 11 }], 0, NOON_MS).taken).toBe(false)
  for (let i = 0; i < 100; i++) take(store, flooded, `made-up${i}`, 1)
  expect(teams.map((team) => leftOf(store, budget, team))).toEqual(teams.map(() => 10))
})

function windowLimit(period: Parameters<typeof calendarOf>[0]): Limit {
  return { kind: WINDOW, tokens: SIZE, calendar: calendarOf(period, 'UTC') }
}

function open(store: EmbeddedStore, name: string, limit: Limit): Counter {
  return store.open({ identity: [name], limit, sinceMs: 0 })
}

function take(store: EmbeddedStore, counter: Counter, key: string, cost: number): void {
  expect(takeRowsNow(store, [{ counter, values: [key], cost }], 0, NOON_MS).taken).toBe(true)
}

function leftOf(store: EmbeddedStore, counter: Counter, key: string): number {
  return takeRowsNow(store, [{ counter, values: [key], cost: 0 }], 0, NOON_MS).levels[0]!
}

/** As a state file does it. */
function restoreAll({ table }: EmbeddedStore): void {
  const batch = new RecordBatch()
  copyLive(table, 0, 0, NOON_MS, batch)
  for (let slot = 0; slot < WAYS; slot++) table.forget(slot)
  const { kinds, lows, highs, levels, ats, sizes, rates } = batch
  for (let i = 0; i < batch.length; i++) {
    const numbers = { level: levels[i]!, at: ats[i]!, size: sizes[i]!, rate: rates[i]! }
    restore(table, { kind: kinds[i]!, low: lows[i]!, high: highs[i]!, ...numbers }, 0, NOON_MS)
  }
}
