import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { algorithmOf } from '../../src/limiter/algorithms/algorithms.ts'
import { calendarOf, PERIODS } from '../../src/limiter/calendar.ts'
import { BUCKET, type Limit, WINDOW } from '../../src/limiter/limit.ts'
import { readState, restoreInto, StateTooLarge } from '../../src/store/state/state-read.ts'
import { EmbeddedStore } from '../../src/store/table/embedded-store.ts'
import type { SharedTable } from '../../src/store/table/shared-table.ts'
import { RESET, WAYS, worthMs } from '../../src/store/table/table-layout.ts'
import { copyLive, RecordBatch, type TaggedRecord } from '../../src/store/table/table-records.ts'
import { anyShare, exactBurst, exactRate } from '../support/random/numbers.ts'
import { runs, sized } from '../support/run/property-runs.ts'
import { sectionBytes, withSections } from '../support/state/sections.ts'
import {
  bucketRecord,
  clockAt,
  HASH_KEY,
  newFolder,
  newTable,
  readGood,
  resetRecord,
  save,
  tableOf,
  windowRecord,
} from '../support/state/state.ts'
import { SAVED_BY_0_1, sealed } from '../support/state/version-1.ts'
import { bucketLimit, dayLimit, type Row, resetRows, takeRowsNow } from '../support/store/charging.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const DAY_MS = 86_400_000

const limit: fc.Arbitrary<Limit> = fc.oneof(
  fc.tuple(exactRate, exactBurst).map(([rate, burst]) => bucketLimit(rate, burst)),
  // So slow that what is spent is not back by the time of loading
  fc.tuple(fc.integer({ min: 1, max: 1000 }), exactBurst).map(([rate, burst]) => bucketLimit(rate / 2 ** 30, burst)),
  fc.integer({ min: 1, max: 2 ** 20 }).map(dayLimit),
  fc
    .record({
      period: fc.constantFrom(...PERIODS),
      zone: fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata'),
      tokens: fc.integer({ min: 1, max: 2 ** 20 }),
    })
    .map(({ period, zone, tokens }): Limit => ({ kind: WINDOW, tokens, calendar: calendarOf(period, zone) })),
)
/** Each of 15 counters may have a reset besides, and the smallest table has 32 slots. */
const step = fc.record({
  what: fc.constantFrom('take', 'take', 'take', 'reset'),
  counter: fc.nat(4),
  key: fc.nat(2),
  share: anyShare,
  gapMs: fc.oneof(fc.nat(20), fc.nat(60_000)),
})
const slots = fc.integer({ min: 1, max: 2000 })
/** Wall time between saving and loading: a moment, hours, days, and a clock that was set back. */
const awayMs = fc.oneof(fc.nat(100), fc.nat(3_600_000), fc.integer({ min: -2 * DAY_MS, max: 3 * DAY_MS }))

test('any counters and resets, saved and loaded into a table of any size by a process with another clock, are as if time had passed', async () => {
  const path = join(await newFolder(), 'state')
  const scene = fc.record({
    limits: fc.array(limit, { minLength: 5, maxLength: 5 }),
    steps: fc.array(step, { maxLength: 60 }),
    slots: fc.tuple(slots, slots),
    startMs: fc.nat(1_000_000),
    awayMs,
    nowMs: fc.nat(2 ** 31),
  })
  await fc.assert(
    fc.asyncProperty(scene, async ({ limits, steps, slots: [slotsBefore, slotsAfter], startMs, awayMs, nowMs }) => {
      const table = newTable(slotsBefore)
      const store = storeOn(table)
      let [at, wallMs] = [startMs, NOON_MS]
      for (const { what, counter, key, share, gapMs } of steps) {
        at += gapMs
        wallMs += gapMs
        const row = rowOf(limits, counter, key, share, store)
        if (what === 'take') takeRowsNow(store, [row], at, wallMs)
        else await resetRows(store, [row], at, wallMs)
      }
      await save(path, table, clockAt(at, wallMs))
      const clock = clockAt(nowMs, wallMs + awayMs)
      const loaded = newTable(slotsAfter)
      const { evicted } = await restoreInto(loaded, await readGood(path, clock), clock)
      expect(evicted).toBe(0)
      // A wall clock that was set back says nothing of how long it was.
      const before = countsIn(table, limits, at + Math.max(0, awayMs), wallMs + awayMs)
      expect(countsIn(loaded, limits, nowMs, wallMs + awayMs)).toEqual(before)
    }),
    { numRuns: sized(8, 100) },
  )
})

test('what a table has no room for is refused as a whole, or what is left out of a set means nothing soonest', async () => {
  const path = join(await newFolder(), 'state')
  const part = fc.record({ isWindow: fc.boolean(), level: fc.nat(99), key: fc.integer({ min: 1, max: 65_535 }) })
  const parts = fc
    .integer({ min: 20, max: 200 })
    .chain((count) => fc.uniqueArray(part, { minLength: count, maxLength: count, selector: ({ key }) => key }))
  await fc.assert(
    fc.asyncProperty(parts, fc.integer({ min: -1, max: 2 }), async (list, spareSets) => {
      const records = list.map(({ isWindow, level, key }) => {
        const record = isWindow ? windowRecord(key, level + 1, NOON_MS + DAY_MS / 2) : bucketRecord(key, level, 0)
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
      for (let set = 0; set < table.setCount; set++) expectLongest(table, set, records)
    }),
    { numRuns: sized(8, 100) },
  )
})

test.each<[string, () => Promise<Buffer>]>([
  ['a file', allKindsFile],
  ['a file of version 1', async () => SAVED_BY_0_1],
])('any byte of %s that is changed, and any end that is missing, is found out', async (_, goodFile) => {
  const path = join(await newFolder(), 'state')
  const clock = clockAt(0, NOON_MS)
  const good = await goodFile()
  await writeFile(path, good)
  expect((await readState(path, clock)).kind).toBe('found')
  const expectDamage = async (bytes: Buffer, file = path): Promise<void> => {
    await writeFile(file, bytes)
    expect(await readState(file, clock)).toMatchObject({ kind: 'damaged' })
  }
  const lengths = [...good.keys()].filter((length) => length % sized(29, 1) === 0 || length === good.length - 1)
  await Promise.all(lengths.map((length) => expectDamage(good.subarray(0, length), `${path}-${length}`)))
  await fc.assert(
    fc.asyncProperty(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), async (offset, bits) => {
      const bytes = Buffer.from(good)
      bytes[offset]! ^= bits
      // The one word of the header that has no meaning is under the checksum, too.
      await expectDamage(bytes)
    }),
    { numRuns: runs(4) },
  )
  const numRuns = sized(5, 100)
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), (bytes) => expectDamage(Buffer.from(bytes))),
    { numRuns },
  )
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1 }), (more) => expectDamage(Buffer.concat([good, more]))),
    { numRuns },
  )
})

test('any file under a good checksum is loaded or set aside, and what is loaded can be saved and loaded again', async () => {
  const path = join(await newFolder(), 'state')
  const clock = clockAt(0, NOON_MS)
  const body = (await allKindsFile()).subarray(0, -32)
  const edit = fc.record({
    at: fc.integer({ min: 12, max: body.length - 4 }),
    word: fc.oneof(fc.nat(300), fc.constantFrom(0x7ff0_0000, 2 ** 31, 2 ** 32 - 1)),
  })
  const edits = fc.array(edit, { minLength: 1, maxLength: 4 })
  const more = fc.oneof(fc.constant(undefined), fc.tuple(fc.constantFrom(1, 2, 3, 131, 256), fc.uint8Array({ maxLength: 100 })))
  await fc.assert(
    fc.asyncProperty(edits, more, async (list, section) => {
      const changed = Buffer.from(body)
      for (const { at, word } of list) changed.writeUInt32LE(word, at)
      const file = sealed(changed)
      await writeFile(path, section === undefined ? file : withSections(file, sectionBytes(...section)))
      const read = await readState(path, clock)
      if (read.kind !== 'found') {
        expect(read).toMatchObject({ kind: 'damaged', reason: expect.stringMatching(/^[a-z]/) })
        return
      }
      const table = newTable(64)
      const { counters } = await restoreInto(table, read.state, clock)
      await save(path, table, clock)
      expect((await readGood(path, clock)).live).toBeLessThanOrEqual(counters)
    }),
    { numRuns: runs(4) },
  )
})

/** Two buckets, a window, a reset, and a section that nobody knows. */
async function allKindsFile(): Promise<Buffer> {
  const path = join(await newFolder(), 'state')
  const records = [
    bucketRecord(1, 50, 0),
    bucketRecord(2, -5, 0),
    windowRecord(3, 5, NOON_MS + 1000),
    resetRecord(4, NOON_MS - 1000, NOON_MS + DAY_MS),
  ]
  await save(path, tableOf(64, records, 0), clockAt(0, NOON_MS))
  return withSections(await readFile(path), sectionBytes(300, Buffer.from('of a later program')))
}

function storeOn(table: SharedTable): EmbeddedStore {
  return new EmbeddedStore(table, HASH_KEY)
}

function rowOf(limits: readonly Limit[], counter: number, key: number, share: number, store: EmbeddedStore): Row {
  const limit = limits[counter]!
  const size = algorithmOf(limit).size(limit)
  // Multiples of 1/8, so that nothing is rounded
  const cost = limit.kind === BUCKET ? Math.round(size * share * 8) / 8 : Math.round(size * share)
  return { counter: store.open({ identity: [String(counter)], limit, sinceMs: 0 }), values: [String(key)], cost }
}

/** What each counter has left, and the resets that are still kept. */
function countsIn(table: SharedTable, limits: readonly Limit[], nowMs: number, wallMs: number): object {
  const store = storeOn(table)
  const rows = limits.flatMap((_, counter) => [0, 1, 2].map((key) => rowOf(limits, counter, key, 0, store)))
  const resets: string[] = []
  const batch = new RecordBatch()
  for (let set = 0; set < table.setCount; set++) {
    if (!copyLive(table, set, nowMs, wallMs, batch)) throw new Error(`set ${set} could not be read`)
    for (let row = 0; row < batch.length; row++) {
      const { lows, highs, levels, ats } = batch
      if (batch.kinds[row] === RESET) resets.push(`${lows[row]} ${highs[row]}: ${levels[row]} until ${ats[row]}`)
    }
  }
  return { levels: takeRowsNow(store, rows, nowMs, wallMs).levels, resets: resets.sort() }
}

function expectLongest(table: SharedTable, set: number, records: readonly TaggedRecord[]): void {
  const own = records.filter(({ high }) => table.setOf(high) === set)
  const worth = (record: TaggedRecord): number => worthMs(record, 0, NOON_MS)
  const inside = own.filter(({ low, high }) => table.find(set, low, high) >= 0)
  const outside = own.filter(({ low, high }) => table.find(set, low, high) < 0)
  expect(inside).toHaveLength(Math.min(own.length, WAYS))
  expect(Math.max(0, ...outside.map(worth))).toBeLessThanOrEqual(Math.min(Number.MAX_VALUE, ...inside.map(worth)))
}
