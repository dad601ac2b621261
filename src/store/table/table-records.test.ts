import { describe, expect, test } from 'vitest'
import { bucketRecord, newTable, resetRecord, tableOf, windowRecord } from '../../../test/support/state/state.ts'
import { BUCKET } from '../../limiter/limit.ts'
import type { SharedTable } from './shared-table.ts'
import { WAYS } from './table-layout.ts'
import { copyLive, RecordBatch, restore, type TaggedRecord } from './table-records.ts'

describe('copying a set', () => {
  test('gives the records that are not full or over, as they are', () => {
    const table = newTable(WAYS)
    const live = [bucketRecord(1, 99, 1000), windowRecord(3, 1, 2001), bucketRecord(5, -7.5, 2000)]
    for (const { kind, low, high, level, at, size, rate } of [bucketRecord(2, 99, 0, 100, 1), ...live, windowRecord(4, 1, 2000)]) {
      table.write(table.claim(0, low, high, kind, 0, 0, 0), level, at, size, rate)
    }
    expect(recordsOf(table, 2000)).toEqual(live)
    expect(table.occupiedSlots).toBe(5)
  })

  test('of which somebody has the lock gives nothing, and does not wait', () => {
    const table = tableOf(WAYS, [bucketRecord(1, 50, 0)], 0)
    const batch = new RecordBatch()
    table.lock(0)
    expect(copyLive(table, 0, 0, 0, batch)).toBe(false)
    expect(batch.length).toBe(0)
    table.unlock(0)
    expect(copyLive(table, 0, 0, 0, batch)).toBe(true)
    expect(batch.length).toBe(1)
    expect(table.tryLock(0)).toBe(true)
  })

  test('gives a record from every slot it can be in', () => {
    const table = newTable(WAYS)
    for (let i = 0; i < WAYS; i++) table.write(table.claim(0, 0x1_0000 + i, i, BUCKET, 0, 0, 0), 200, 0, 100, 1)
    for (let way = 0; way < WAYS; way++) {
      table.write(way, 50, 0, 100, 1)
      expect(recordsOf(table, 0)).toMatchObject([{ low: 0x1_0000 + way, level: 50 }])
      table.write(way, 200, 0, 100, 1)
    }
  })

  test('that has never been used leaves its lock alone', () => {
    const table = newTable(WAYS)
    table.lock(0)
    expect(copyLive(table, 0, 0, 0, new RecordBatch())).toBe(true)
  })
})

describe('restoring', () => {
  test.each(['ascending', 'descending'])(
    'into a set that is too small keeps those that mean something for longest, in %s order',
    (order) => {
      const buckets = Array.from({ length: WAYS + 8 }, (_, i) => bucketRecord(i + 1, 90 - i, 0))
      const [endsSoon, endsLate, reset] = [windowRecord(100, 999, 1), windowRecord(101, 1, 1e9), resetRecord(102, 0, 1)]
      const records = [...buckets, endsSoon, endsLate, reset]
      const table = tableOf(WAYS, order === 'ascending' ? records : records.toReversed(), 0)
      expect(new Set(recordsOf(table, 0).map(({ low }) => low))).toEqual(
        new Set([...buckets.slice(10), endsLate, reset].map(({ low }) => low)),
      )
      expect([table.occupiedSlots, table.forcedEvictions]).toEqual([WAYS, 11])
    },
  )

  test('leaves out what is full or over, and evicts nothing for it', () => {
    const table = tableOf(WAYS, [bucketRecord(1, 50, 0, 100, 1), windowRecord(2, 500, 1000)], 1000, 1000)
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([0, 0])
  })

  test('takes the place of what has become full since, and that is no eviction', () => {
    const table = tableOf(
      WAYS,
      Array.from({ length: WAYS }, (_, i) => bucketRecord(i + 1, 50, 0, 100, 1)),
      0,
    )
    restore(table, bucketRecord(99, 50, 1000), 1000, 0)
    expect(recordsOf(table, 1000)).toEqual([bucketRecord(99, 50, 1000)])
    expect(table.forcedEvictions).toBe(0)
  })

  test('a key twice leaves it in the table once, as it came last', () => {
    const table = tableOf(WAYS, [bucketRecord(1, 50, 0), bucketRecord(1, 40, 0)], 0)
    expect(recordsOf(table, 0)).toEqual([bucketRecord(1, 40, 0)])
    expect(table.occupiedSlots).toBe(1)
  })

  test('a key with another kind leaves it in the table once, with the kind that came last', () => {
    const table = tableOf(WAYS, [bucketRecord(1, 50, 0), windowRecord(1, 40, 1000)], 0)
    expect(recordsOf(table, 0)).toEqual([windowRecord(1, 40, 1000)])
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([1, 0])
  })

  test('leaves nothing locked, and nothing that would be forgotten with its thread', () => {
    const table = tableOf(WAYS, [bucketRecord(1, 50, 0)], 0)
    table.lock(0)
    expect(table.freeLocksOf(1)).toBe(1)
    expect(recordsOf(table, 0)).toHaveLength(1)
  })
})

function recordsOf(table: SharedTable, nowMs: number, wallMs = nowMs): TaggedRecord[] {
  const batch = new RecordBatch()
  expect(copyLive(table, 0, nowMs, wallMs, batch)).toBe(true)
  return Array.from({ length: batch.length }, (_, row) => ({
    kind: batch.kinds[row]!,
    low: batch.lows[row]!,
    high: batch.highs[row]!,
    level: batch.levels[row]!,
    at: batch.ats[row]!,
    size: batch.sizes[row]!,
    rate: batch.rates[row]!,
  }))
}
