import { describe, expect, test } from 'vitest'
import { type CounterRecord, IN_FLIGHT, type InFlightLimit, NEVER, newRecord } from '../limit.ts'
import { inFlight, SLICES, sliceIndex } from './in-flight.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const limit: InFlightLimit = { kind: IN_FLIGHT, max: 4, sliceMs: 7500 }
const HOLD_MS = SLICES * limit.sliceMs

function recordAt(wallMs: number, held = 0): CounterRecord {
  const record = newRecord()
  inFlight.begin(limit, record, 0, wallMs)
  inFlight.take(record, held)
  return record
}

test('a record is one slice: it counts for eight of them from its beginning', () => {
  expect(recordAt(NOON_MS)).toEqual({ kind: IN_FLIGHT, level: 0, at: NOON_MS + HOLD_MS, size: 4, rate: 7500 })
  expect(recordAt(NOON_MS + 7499).at).toBe(NOON_MS + HOLD_MS)
  expect(recordAt(NOON_MS + 7500).at).toBe(NOON_MS + HOLD_MS + 7500)
})

test('the slices that count at one time have different numbers, and the next one takes the number of the first', () => {
  const indexes = Array.from({ length: SLICES + 1 }, (_, i) => sliceIndex(recordAt(NOON_MS + i * limit.sliceMs)))
  expect(new Set(indexes.slice(0, SLICES)).size).toBe(SLICES)
  expect(indexes[SLICES]).toBe(indexes[0])
})

test('what is taken is missing, and comes back up to nothing held', () => {
  const record = recordAt(NOON_MS, 3)
  expect(inFlight.left(limit, record)).toBe(1)
  inFlight.settle(record, 2)
  expect(inFlight.left(limit, record)).toBe(3)
  inFlight.settle(record, 2)
  expect(inFlight.left(limit, record)).toBe(4)
})

test('a wait is a second, and none where there is room or nothing is asked for', () => {
  expect([1, 0.5, 0, -3].map((left) => inFlight.waitMs(limit, left, 1, NOON_MS))).toEqual([0, 1000, 1000, 1000])
  expect(inFlight.waitMs(limit, -3, 0, NOON_MS)).toBe(0)
  expect(inFlight.waitMs(limit, 4, 5, NOON_MS)).toBe(NEVER)
  expect([4, 3, 0, -1].map((left) => inFlight.resetMs(limit, left, NOON_MS))).toEqual([0, 1000, 1000, 1000])
})

test('a new limit counts what is held already', () => {
  const record = recordAt(NOON_MS, 3)
  const smaller = { ...limit, max: 2 }
  inFlight.refresh(smaller, record, 0, 0)
  expect([record.size, inFlight.left(smaller, record)]).toEqual([2, -1])
  expect([inFlight.isSame(limit, { ...limit }), inFlight.isSame(limit, smaller)]).toEqual([true, false])
  expect(inFlight.isSame(limit, { ...limit, sliceMs: 125 })).toBe(false)
})

describe('what a record is worth', () => {
  test('is the time for which it counts, a little more if it has more holds', () => {
    const worthAt = (wallMs: number, holds = 3): number => inFlight.worthMs(recordAt(NOON_MS, holds), 0, wallMs)
    expect(worthAt(NOON_MS) / HOLD_MS).toBeCloseTo(1, 5)
    expect(worthAt(NOON_MS + HOLD_MS - 1)).toBeCloseTo(1, 5)
    expect(worthAt(NOON_MS, 1)).toBeLessThan(worthAt(NOON_MS))
    expect([worthAt(NOON_MS + HOLD_MS), worthAt(NOON_MS, 0)]).toEqual([0, 0])
  })

  test('is nothing where a clock that was ahead has written it', () => {
    expect(inFlight.worthMs(recordAt(NOON_MS + limit.sliceMs, 3), 0, NOON_MS - 1)).toBe(0)
  })
})
