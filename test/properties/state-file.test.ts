import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Limit } from '../../src/limiter/limit.ts'
import { EmbeddedStore } from '../../src/store/embedded-store.ts'
import { type SharedTable, WAYS } from '../../src/store/shared-table.ts'
import { spentShare } from '../../src/store/spent-share.ts'
import { readState, restoreInto, StateTooLarge } from '../../src/store/state/state-read.ts'
import type { CounterRecord } from '../../src/store/table-records.ts'
import { anyShare, exactBurst, exactRate } from '../support/random/numbers.ts'
import { bucketRecord, clockAt, dayRecord, HASH_KEY, newFolder, newTable, readGood, save, tableOf } from '../support/state/state.ts'
import { bucketLimit, dayLimit, type Row, takeRowsNow } from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const DAY_MS = 86_400_000

const limit: fc.Arbitrary<Limit> = fc.oneof(
  fc.tuple(exactRate, exactBurst).map(([rate, burst]) => bucketLimit(rate, burst)),
  // So slow that what is spent is not back by the time of loading
  fc.tuple(fc.integer({ min: 1, max: 1000 }), exactBurst).map(([rate, burst]) => bucketLimit(rate / 2 ** 30, burst)),
  fc.integer({ min: 1, max: 2 ** 20 }).map(dayLimit),
)
const take = fc.record({ counter: fc.nat(4), key: fc.nat(3), share: anyShare, gapMs: fc.oneof(fc.nat(20), fc.nat(60_000)) })
const slots = fc.integer({ min: 1, max: 2000 })
/** Wall time between saving and loading: a moment, hours, days, and a clock that was set back. */
const awayMs = fc.oneof(fc.nat(100), fc.nat(3_600_000), fc.integer({ min: -2 * DAY_MS, max: 3 * DAY_MS }))

test('any counters, saved and loaded into a table of any size by a process with another clock, are as if time had passed', async () => {
  const path = join(await newFolder(), 'state')
  const scene = fc.record({
    limits: fc.array(limit, { minLength: 5, maxLength: 5 }),
    takes: fc.array(take, { maxLength: 60 }),
    slots: fc.tuple(slots, slots),
    startMs: fc.nat(1_000_000),
    awayMs,
    nowMs: fc.nat(2 ** 31),
  })
  await fc.assert(
    fc.asyncProperty(scene, async ({ limits, takes, slots: [slotsBefore, slotsAfter], startMs, awayMs, nowMs }) => {
      const table = newTable(slotsBefore)
      let [at, wallMs] = [startMs, NOON_MS]
      for (const { counter, key, share, gapMs } of takes) {
        at += gapMs
        wallMs += gapMs
        takeRowsNow(storeOn(table), [rowOf(limits, counter, key, share, table)], at, wallMs)
      }
      await save(path, table, clockAt(at, wallMs))
      const clock = clockAt(nowMs, wallMs + awayMs)
      const loaded = newTable(slotsAfter)
      const { evicted } = await restoreInto(loaded, await readGood(path, clock), clock)
      expect(evicted).toBe(0)
      // A wall clock that was set back says nothing of how long it was.
      expect(levelsIn(loaded, limits, nowMs, wallMs + awayMs)).toEqual(levelsIn(table, limits, at + Math.max(0, awayMs), wallMs + awayMs))
    }),
  )
})

test('what a table has no room for is refused as a whole, or what is left out of a set has spent least of it', async () => {
  const path = join(await newFolder(), 'state')
  const part = fc.record({ isDay: fc.boolean(), level: fc.nat(99), low: fc.nat(1_000_000) })
  const parts = fc
    .integer({ min: 20, max: 200 })
    .chain((count) => fc.uniqueArray(part, { minLength: count, maxLength: count, selector: ({ low }) => low }))
  await fc.assert(
    fc.asyncProperty(parts, fc.integer({ min: -1, max: 2 }), async (list, spareSets) => {
      const records = list.map(({ isDay, level, low }) => {
        const record = isDay ? dayRecord(low, level, DAY_MS / 2) : bucketRecord(low, level, 0)
        // All in the first half of the sets, which then overflow
        return { ...record, high: record.high >>> 1 }
      })
      const clock = clockAt(0, NOON_MS)
      const source = tableOf(100 * WAYS, records, 0)
      expect(source.forcedEvictions).toBe(0)
      await save(path, source, clock)
      const state = await readGood(path, clock)
      const table = newTable(Math.max(1, list.length + spareSets * WAYS))
      if (records.length > table.slotCount) {
        await expect(restoreInto(table, state, clock)).rejects.toBeInstanceOf(StateTooLarge)
        expect(table.occupiedSlots).toBe(0)
        return
      }
      const { counters, evicted } = await restoreInto(table, state, clock)
      expect([counters + evicted, counters, evicted]).toEqual([records.length, table.occupiedSlots, table.forcedEvictions])
      for (let set = 0; set < table.setCount; set++) expectMostSpent(table, set, records)
    }),
  )
})

test('any byte that is changed, and any end that is missing, is found out', async () => {
  const path = join(await newFolder(), 'state')
  const clock = clockAt(0, NOON_MS)
  await save(path, tableOf(64, [bucketRecord(1, 50, 0), bucketRecord(2, -5, 0), dayRecord(3, 5, 1000)], 0), clock)
  const good = await readFile(path)
  expect((await readState(path, clock)).kind).toBe('found')
  const expectDamage = async (bytes: Buffer, file = path): Promise<void> => {
    await writeFile(file, bytes)
    expect(await readState(file, clock)).toMatchObject({ kind: 'damaged' })
  }
  await Promise.all(Array.from(good, (_, length) => expectDamage(good.subarray(0, length), `${path}-${length}`)))
  await fc.assert(
    fc.asyncProperty(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), async (offset, bits) => {
      const bytes = Buffer.from(good)
      bytes[offset]! ^= bits
      await expectDamage(bytes)
    }),
    { numRuns: 300 },
  )
  await fc.assert(fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), (bytes) => expectDamage(Buffer.from(bytes))))
  await fc.assert(fc.asyncProperty(fc.uint8Array({ minLength: 1 }), (more) => expectDamage(Buffer.concat([good, more]))))
})

function storeOn(table: SharedTable): EmbeddedStore {
  return new EmbeddedStore(table, HASH_KEY)
}

function rowOf(limits: readonly Limit[], counter: number, key: number, share: number, table: SharedTable): Row {
  const limit = limits[counter]!
  // Multiples of 1/8, so that nothing is rounded
  const cost = limit.kind === 'bucket' ? Math.round(limit.burst * share * 8) / 8 : Math.round(limit.tokensPerDay * share)
  return { counter: storeOn(table).open({ identity: [String(counter)], limit, sinceMs: 0 }), values: [String(key)], cost }
}

function levelsIn(table: SharedTable, limits: readonly Limit[], nowMs: number, wallMs: number): number[] {
  const rows = limits.flatMap((_, counter) => [0, 1, 2, 3].map((key) => rowOf(limits, counter, key, 0, table)))
  return [...takeRowsNow(storeOn(table), rows, nowMs, wallMs).levels]
}

function expectMostSpent(table: SharedTable, set: number, records: readonly CounterRecord[]): void {
  const own = records.filter(({ high }) => table.setOf(high) === set)
  const share = ({ level, at, size, rate }: CounterRecord): number => spentShare(level, at, size, rate, 0)
  const inside = own.filter(({ low, high }) => table.find(set, low, high) >= 0)
  const outside = own.filter(({ low, high }) => table.find(set, low, high) < 0)
  expect(inside).toHaveLength(Math.min(own.length, WAYS))
  expect(Math.max(0, ...outside.map(share))).toBeLessThanOrEqual(Math.min(9, ...inside.map(share)))
}
