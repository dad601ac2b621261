import { describe, expect, test } from 'vitest'
import { bucketRecord, resetRecord, windowRecord } from '../../../test/support/state/state.ts'
import { BUCKET, IN_FLIGHT, WINDOW } from '../../limiter/limit.ts'
import { LEASE_BLOCK, LEASE_NOTE, LEASE_USE, RESET } from '../table/table-layout.ts'
import { bringTo, isKeptFrom, isSavedKind } from './state-format.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOON_MS = Date.UTC(2026, 0, 15, 12)
/** Saved at noon, when the process had run for 10 s. */
const SAVED = { wallMs: NOON_MS, nowMs: 10_000 }

test('counters and resets are saved; what is leased is not, and nothing that has no kind', () => {
  expect([BUCKET, WINDOW, IN_FLIGHT, RESET].map(isSavedKind)).toEqual([true, true, true, true])
  expect([LEASE_BLOCK, LEASE_NOTE, LEASE_USE, 0, 100, 255, 256, 2 ** 32 - 1].map(isSavedKind)).toEqual(Array(8).fill(false))
  expect(isKeptFrom(SAVED, LEASE_BLOCK, 0)).toBe(false)
})

describe('a bucket of another process', () => {
  test.each([
    ['an hour later', HOUR_MS, -HOUR_MS - 1000],
    ['at once', 0, -1000],
    ['though the wall clock was set back meanwhile', -HOUR_MS, -1000],
  ])('is as old as it is, %s', (_, awayMs, expectedAge) => {
    const record = bucketRecord(1, 5, 9_000, 1e6)
    expect(bringTo({ wallMs: NOON_MS + awayMs, nowMs: 77 }, SAVED, record)).toBe(true)
    expect(record.at).toBe(77 + expectedAge)
  })

  test('that was written after the save began is never ahead of the clock', () => {
    const record = bucketRecord(1, 5, 10_500)
    bringTo({ wallMs: NOON_MS + 100, nowMs: 77 }, SAVED, record)
    expect(record.at).toBe(77)
  })

  test('that has filled up meanwhile means nothing any more', () => {
    const apply = (size: number): boolean => bringTo({ wallMs: NOON_MS + 101, nowMs: 77 }, SAVED, bucketRecord(1, 0, 10_000, size, 1))
    expect([apply(100), apply(102)]).toEqual([false, true])
  })
})

describe.each([
  ['a window', (endMs: number) => windowRecord(1, 5, endMs)],
  ['a reset', (endMs: number) => resetRecord(1, NOON_MS - 1000, endMs)],
])('%s of another process', (_, recordUntil) => {
  test('ends when it ends, whatever this process calls now', () => {
    const record = recordUntil(NOON_MS + 12 * HOUR_MS)
    const before = { ...record }
    expect(bringTo({ wallMs: NOON_MS + 5 * HOUR_MS, nowMs: 77 }, SAVED, record)).toBe(true)
    expect(record).toEqual(before)
  })

  test('that is over means nothing any more', () => {
    const apply = (awayMs: number): boolean => bringTo({ wallMs: NOON_MS + awayMs, nowMs: 77 }, SAVED, recordUntil(NOON_MS + 1000))
    expect([apply(999), apply(1000)]).toEqual([true, false])
  })

  test('is there when a clock that starts in 1970 has been set right', () => {
    const record = recordUntil(NOON_MS + HOUR_MS)
    expect(bringTo({ wallMs: 0, nowMs: 77 }, SAVED, record)).toBe(true)
    expect(record.at).toBe(NOON_MS + HOUR_MS)
  })

  test('may end a leap year later, and not much after that', () => {
    const { kind } = recordUntil(0)
    expect(isKeptFrom(SAVED, kind, NOON_MS + 366 * DAY_MS)).toBe(true)
    expect(isKeptFrom(SAVED, kind, NOON_MS + 367 * DAY_MS + 1)).toBe(false)
    expect(bringTo({ wallMs: NOON_MS, nowMs: 77 }, SAVED, recordUntil(NOON_MS + 367 * DAY_MS + 1))).toBe(false)
  })
})

const AT_SAVE = { wallMs: 1000 * 86_400_000, nowMs: 5000 }

test.each([
  ['before it was saved', AT_SAVE.wallMs - 1, true],
  ['by a clock of Redis that is some hours ahead', AT_SAVE.wallMs + DAY_MS, true],
  ['by a clock that was wrong', AT_SAVE.wallMs + DAY_MS + 1, false],
  ['beyond all time', 1e300, false],
])('a reset %s is kept: %s', (_, momentMs, isKept) => {
  const record = { kind: RESET, low: 1, high: 1, level: momentMs, at: AT_SAVE.wallMs + 2 * DAY_MS, size: 1, rate: 0 }
  expect(bringTo({ wallMs: AT_SAVE.wallMs + 10, nowMs: 1 }, AT_SAVE, record)).toBe(isKept)
})

describe('requests in flight of another process', () => {
  const holdMs = 60_000
  const slice = () => ({ kind: IN_FLIGHT, low: 1, high: 2, level: 3, at: NOON_MS + holdMs, size: 5, rate: holdMs / 8 })

  test.each([
    ['at once', 0, true],
    ['while they may still be', holdMs - 1, true],
    ['no more when their time is over', holdMs, false],
    ['not where the clock was ahead when they were saved', -1, false],
  ])('count %s', (_, awayMs, isLive) => {
    const record = slice()
    expect(bringTo({ wallMs: NOON_MS + awayMs, nowMs: 77 }, SAVED, record)).toBe(isLive)
    expect(record).toEqual(slice())
  })
})
