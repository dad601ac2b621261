import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { clockAt, HASH_KEY, newFolder, newTable, readGood, recordsIn, save } from '../../../test/support/state/state.ts'
import { SAVED_BY_0_1, sealed, type Version1Record, version1File } from '../../../test/support/state/version-1.ts'
import { bucketLimit, dayLimit, takeRowsNow } from '../../../test/support/store/charging.ts'
import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { EmbeddedStore } from '../table/embedded-store.ts'
import type { SharedTable } from '../table/shared-table.ts'
import { readState, restoreInto } from './state-read.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOON_MS = Date.UTC(2026, 0, 15, 12)
const MIDNIGHT_MS = NOON_MS + 12 * HOUR_MS
/** Saved at noon, when the process had run for 10 s. */
const SAVED = { wallMs: NOON_MS, nowMs: 10_000 }
const DEBT = 249 - 2 ** -30

describe('a file that edge 0.1 saved', () => {
  test('loads to the last token, and again once it has been saved by this program', async () => {
    const path = join(await newFolder(), 'state')
    await writeFile(path, SAVED_BY_0_1)
    const clock = clockAt(55, NOON_MS)
    expect(await readGood(path, clock)).toMatchObject({ counters: 5, live: 5, header: { version: 1, hashKey: HASH_KEY } })
    const table = newTable(64)
    expect(await restoreInto(table, await readGood(path, clock), clock)).toEqual({ counters: 5, evicted: 0 })
    expect(levelsIn(table, 55, NOON_MS)).toEqual([1, 97.5, -DEBT, 100, 999])

    await save(path, table, clock)
    expect(await readGood(path, clock)).toMatchObject({ counters: 5, live: 5, header: { version: 2 } })
    const again = newTable(64)
    await restoreInto(again, await readGood(path, clock), clock)
    expect(levelsIn(again, 55, NOON_MS)).toEqual([1, 97.5, -DEBT, 100, 999])
  })

  test('goes on after a pause as if it had run: buckets have refilled, and the day ends at midnight', async () => {
    const path = join(await newFolder(), 'state')
    await writeFile(path, SAVED_BY_0_1)
    const clock = clockAt(55, MIDNIGHT_MS - 1)
    const table = newTable(64)
    await restoreInto(table, await readGood(path, clock), clock)
    const [, , slow, ...days] = levelsIn(table, 55, MIDNIGHT_MS - 1)
    expect(slow).toBeCloseTo(-DEBT + (12 * HOUR_MS) / 2 ** 40, 9)
    expect(days).toEqual([100, 999])
    expect((await readGood(path, clockAt(55, MIDNIGHT_MS))).live).toBe(1)
  })

  function levelsIn(table: SharedTable, nowMs: number, wallMs: number): number[] {
    const store = new EmbeddedStore(table, HASH_KEY)
    const bucket = store.open({ identity: ['p', 'r', 'bucket'], limit: bucketLimit(1 / 1024, 100), sinceMs: 0 })
    const slow = store.open({ identity: ['p', 'slow', 'bucket'], limit: bucketLimit(2 ** -40, 1000), sinceMs: 0 })
    const day = store.open({ identity: ['p', 'r', 'day'], limit: dayLimit(1000), sinceMs: 0 })
    const rows = [
      { counter: bucket, values: ['alice'] },
      { counter: bucket, values: ['bob'] },
      { counter: slow, values: ['alice'] },
      { counter: day, values: ['alice'] },
      { counter: day, values: ['bob'] },
    ]
    // The window's `left` never shows a debt, the bucket's does.
    return [
      ...takeRowsNow(
        store,
        rows.map((row) => ({ ...row, cost: 0 })),
        nowMs,
        wallMs,
      ).levels,
    ]
  }
})

describe('a record of version 1', () => {
  test('with a rate is a bucket, as it was', async () => {
    expect(await recordsOf(record({ at: 9_000, rate: 0.5 }))).toEqual([{ kind: BUCKET, ...record({ at: 9_000, rate: 0.5 }) }])
  })

  test.each([
    ['', 0],
    [' though the clock was set back by two hours after it was begun', -2],
    [' though the clock was set forward by two hours after it was begun', 2],
  ])('without a rate is a day that ends at its midnight%s', async (_, hours) => {
    const at = SAVED.nowMs + (12 + hours) * HOUR_MS
    expect(await recordsOf(record({ at }))).toEqual([{ kind: WINDOW, ...record({ at: MIDNIGHT_MS }) }])
  })

  test('that a wrong clock puts years ahead ends two days after it was saved', async () => {
    expect(await recordsOf(record({ at: 10 * 365 * DAY_MS }))).toMatchObject([{ kind: WINDOW, at: NOON_MS + 2 * DAY_MS }])
  })

  test('is one of any number', async () => {
    const records = Array.from({ length: 20_000 }, (_, i) => record({ level: i, rate: 0.5 }))
    expect(await recordsOf(...records)).toEqual(records.map((one) => ({ kind: BUCKET, ...one })))
  })

  async function recordsOf(...records: Version1Record[]): Promise<object[]> {
    const path = join(await newFolder(), 'state')
    await writeFile(path, version1File(records, SAVED, HASH_KEY))
    return recordsIn(path)
  }
})

describe('of version 1, too, nothing is taken of', () => {
  const good = version1File([record({ rate: 0.5 }), record({ low: 0x2_0002, rate: 0.5 })], SAVED, HASH_KEY)

  test.each<[string, string, Buffer]>([
    ['a file without its last record', 'its checksum is wrong: it was truncated or changed', good.subarray(0, -32)],
    ['a file that is cut off in a record', 'it is truncated', good.subarray(0, -33)],
    ['a header alone', 'it is truncated', good.subarray(0, 40)],
    ['a file with something behind it', 'it is truncated', Buffer.concat([good, Buffer.from('!')])],
    ['a changed file', 'its checksum is wrong: it was truncated or changed', withByte(good, 50, 1)],
    ['a counter that is none', 'it contains impossible values', version1File([record({ size: 0 })], SAVED, HASH_KEY)],
    ['a day with an end that is no number', 'it contains impossible values', version1File([record({ at: Number.NaN })], SAVED, HASH_KEY)],
    ['another number of counters', 'it contains impossible values', sealed(withByte(good, good.length - 34, 1).subarray(0, -32))],
  ])('%s', async (_, reason, bytes) => {
    const path = join(await newFolder(), 'state')
    await writeFile(path, good)
    expect((await readState(path, clockAt(0, NOON_MS))).kind).toBe('found')
    await writeFile(path, bytes)
    expect(await readState(path, clockAt(0, NOON_MS))).toEqual({ kind: 'damaged', reason })
  })
})

function record(what: Partial<Version1Record>): Version1Record {
  return { low: 0x1_0001, high: 5, level: 5, at: 0, size: 10, rate: 0, ...what }
}

function withByte(bytes: Buffer, at: number, bits: number): Buffer {
  const changed = Buffer.from(bytes)
  changed[at]! ^= bits
  return changed
}
