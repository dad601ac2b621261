import { describe, expect, test } from 'vitest'
import { bucketRecord, dayRecord, HASH_KEY } from '../../../test/support/state/state.ts'
import { decodeHeader, encodeHeader, HEADER_BYTES, recordCount, TimeShift } from './state-format.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOON_MS = Date.UTC(2026, 0, 15, 12)
/** Saved at noon, when the process had run for 10 s. */
const SAVED = { hashKey: HASH_KEY, wallMs: NOON_MS, nowMs: 10_000 }

describe('a header', () => {
  test('is read as it was written', () => {
    expect(decodeHeader(written())).toEqual(SAVED)
  })

  test.each([
    ['of another version', (view: DataView) => view.setUint32(8, 2, true), 'its format is version 2, and this program knows version 1'],
    ['of another program', (view: DataView) => view.setUint8(0, 0x50), 'it is not a state file'],
    ['without a time', (view: DataView) => view.setFloat64(24, Number.NaN, true), 'its numbers make no sense'],
  ])('%s is not taken', (_, change, reason) => {
    const view = written()
    change(view)
    expect(decodeHeader(view)).toBe(reason)
  })

  test('that is cut off is not taken', () => {
    expect(decodeHeader(new DataView(written().buffer, 0, HEADER_BYTES - 1))).toBe('it is cut off')
    expect(decodeHeader(new DataView(new ArrayBuffer(0)))).toBe('it is not a state file')
  })

  function written(): DataView {
    const view = new DataView(new ArrayBuffer(HEADER_BYTES))
    encodeHeader(view, SAVED)
    return view
  }
})

test('a size that no file can have has no number of records', () => {
  expect([79, 80, 81, 111, 112, 0].map(recordCount)).toEqual([undefined, 0, undefined, undefined, 1, undefined])
})

describe('a bucket of another process', () => {
  test.each([
    ['an hour later', HOUR_MS, -HOUR_MS - 1000],
    ['at once', 0, -1000],
    ['though the wall clock was set back meanwhile', -HOUR_MS, -1000],
  ])('is as old as it is, %s', (_, awayMs, expectedAge) => {
    const record = bucketRecord(1, 5, 9_000, 1e6)
    expect(new TimeShift(SAVED, NOON_MS + awayMs, 77).apply(record)).toBe(true)
    expect(record.at).toBe(77 + expectedAge)
  })

  test('that was written after the header is never ahead of the clock', () => {
    const record = bucketRecord(1, 5, 10_500)
    new TimeShift(SAVED, NOON_MS + 100, 77).apply(record)
    expect(record.at).toBe(77)
  })

  test('that has filled up meanwhile means nothing any more', () => {
    const [full, not] = [bucketRecord(1, 0, 10_000, 100, 1), bucketRecord(1, 0, 10_000, 102, 1)]
    const shift = new TimeShift(SAVED, NOON_MS + 101, 77)
    expect([shift.apply(full), shift.apply(not)]).toEqual([false, true])
  })
})

describe('a day of another process', () => {
  const MIDNIGHT = 10_000 + 12 * HOUR_MS

  test('ends at its midnight on the new clock', () => {
    const record = dayRecord(1, 5, MIDNIGHT)
    expect(new TimeShift(SAVED, NOON_MS + 5 * HOUR_MS, 77).apply(record)).toBe(true)
    expect(record.at).toBe(77 + 7 * HOUR_MS)
  })

  test('that is over means nothing any more', () => {
    const apply = (awayMs: number): boolean => new TimeShift(SAVED, NOON_MS + awayMs, 77).apply(dayRecord(1, 5, MIDNIGHT))
    expect([apply(12 * HOUR_MS - 1), apply(12 * HOUR_MS)]).toEqual([true, false])
  })

  test.each([-2, 2])('ends at its midnight though the clock was set by %i hours after it was written down', (hours) => {
    const record = dayRecord(1, 5, MIDNIGHT + hours * HOUR_MS)
    expect(new TimeShift(SAVED, NOON_MS + 11.5 * HOUR_MS, 77).apply(record)).toBe(true)
    expect(record.at).toBe(77 + 0.5 * HOUR_MS)
  })

  test('that a wrong clock puts far ahead is kept, and not for ever', () => {
    const record = dayRecord(1, 5, MIDNIGHT)
    expect(new TimeShift(SAVED, 0, 77).apply(record)).toBe(true)
    expect(record.at).toBe(77 + 2 * DAY_MS)
  })
})
