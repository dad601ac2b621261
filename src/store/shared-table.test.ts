import { describe, expect, test } from 'vitest'
import { runThread } from '../../test/support/threads/threads.ts'
import { BUCKET, WINDOW } from '../limiter/limit.ts'
import { LEASE_BLOCK, LEASE_NOTE, LEASE_USE, RESET } from './record-kinds.ts'
import { SharedTable } from './shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer, tableBytesFor, wayOf } from './table-layout.ts'

const WAYS = 32

/** level, at, size, rate */
type SlotRecord = [number, number, number, number]

interface Key {
  readonly low: number
  readonly high: number
}

describe('a table', () => {
  test('needs room for one set, and an owner from 1 to 255', () => {
    expect(() => new SharedTable(newTableBuffer(MIN_TABLE_BYTES - 8), 1)).toThrow(RangeError)
    for (const owner of [0, 256, -1, 1.5, Number.NaN])
      expect(() => new SharedTable(newTableBuffer(MIN_TABLE_BYTES), owner)).toThrow(RangeError)
    expect(new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 255).slotCount).toBe(WAYS)
  })

  test('takes a million keys in 64 MiB', () => {
    expect(new SharedTable(newTableBuffer(64 * 1024 * 1024), 1).slotCount).toBeGreaterThan(1_000_000)
  })

  test('keeps each record as it was written, in every slot', () => {
    const table = new SharedTable(newTableBuffer(tableBytesFor(3 * WAYS)), 1)
    expect([table.setCount, table.slotCount]).toEqual([3, 3 * WAYS])
    const slots = Array.from({ length: table.slotCount }, (_, slot) => {
      const [set, way] = [Math.floor(slot / WAYS), slot % WAYS]
      return { slot, set, way, key: keyOf(way, set), numbers: [slot + 0.1, 1e12 + slot, slot * 2, 0.5 + slot] satisfies SlotRecord }
    })
    expect(slots.map(({ set, key, numbers }) => put(table, set, key, numbers))).toEqual(slots.map(({ slot }) => slot))
    expect(slots.map(({ slot }) => wayOf(slot))).toEqual(slots.map(({ way }) => way))
    expect(slots.map(({ set, key }) => table.find(set, key.low, key.high))).toEqual(slots.map(({ slot }) => slot))
    expect(slots.map(({ slot }) => [table.level(slot), table.at(slot), table.size(slot), table.rate(slot)])).toEqual(
      slots.map(({ numbers }) => numbers),
    )
    expect(slots.map(({ slot }) => [table.low(slot), table.high(slot), table.kind(slot)])).toEqual(
      slots.map(({ key }) => [key.low, key.high, BUCKET]),
    )
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([table.slotCount, 0])
  })

  test('finds a key by all of its 64 bits, and zeros are a key like any other', () => {
    const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
    const keys = [0, 1, 0x1_0000, 0x1_0001, -1].flatMap((low) => [0, 1, -1].map((high) => ({ low, high })))
    expect(keys.filter(({ low, high }) => table.find(0, low, high) !== -1)).toEqual([])
    const slots = keys.map((key, i) => put(table, 0, key, [i, 0, 10, 1]))
    expect(keys.map(({ low, high }) => table.find(0, low, high))).toEqual(slots)
    expect(new Set(slots).size).toBe(keys.length)
  })

  test('names a set for every hash, each as often as the others', () => {
    const table = new SharedTable(newTableBuffer(100_000), 1)
    const counts = new Array<number>(table.setCount).fill(0)
    const steps = table.setCount * 1000
    for (let i = 0; i < steps; i++) counts[table.setOf(Math.floor((i * 2 ** 32) / steps) | 0)]!++
    expect(counts.filter((count) => Math.abs(count - 1000) > 1)).toEqual([])
    expect([table.setOf(0), table.setOf(-1)]).toEqual([0, table.setCount - 1])
  })

  test('is one table through the eyes of every owner', () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const [one, two] = [new SharedTable(buffer, 1), new SharedTable(buffer, 2)]
    const slot = put(one, 0, keyOf(1), [5, 0, 10, 1])
    put(two, 0, keyOf(2), [6, 0, 10, 1])
    expect(two.find(0, keyOf(1).low, keyOf(1).high)).toBe(slot)
    expect(two.level(slot)).toBe(5)
    expect([one.occupiedSlots, two.occupiedSlots]).toEqual([2, 2])
  })
})

describe('a claim in a full set', () => {
  test.each([
    ['a bucket that is full again', BUCKET, [5, 0, 10, 1], 100, 0, 0],
    ['a window that has ended', WINDOW, [900, 50, 1000, 0], 0, 50, 0],
    ['the bucket with the smallest share spent', BUCKET, [5, 0, 10, 0.0001], 0, 0, 1],
    ['the window with the smallest share spent', WINDOW, [899, 50, 1000, 0], 0, 0, 1],
    ['a note', LEASE_NOTE, [0, 1000, 0, 1], 0, 0, 0],
    ['a measure of use', LEASE_USE, [500, 0, 0, 0], 0, 0, 0],
    ['a block of leased tokens that is over', LEASE_BLOCK, [5, 50, 10, 0], 50, 0, 0],
    ['a block of leased tokens that is used up', LEASE_BLOCK, [0, 50, 10, 0], 0, 0, 0],
    ['a reset that is long ago', RESET, [1, 50, 1, 0], 0, 50, 0],
  ] satisfies [string, number, SlotRecord, number, number, number][])('takes over %s', (_, kind, record, nowMs, wallMs, forced) => {
    const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
    for (let i = 0; i < WAYS; i++) {
      if (i === 7) put(table, 0, keyOf(i), record, kind)
      else put(table, 0, keyOf(i), [1, 0, 10, 0.0001])
    }
    expect(table.claim(0, 1, 1, BUCKET, nowMs, wallMs, 0)).toBe(7)
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([WAYS, forced])
    expect(table.kind(7)).toBe(BUCKET)
  })

  test('goes by the share spent alone, of buckets and windows alike', () => {
    const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
    for (let i = 0; i < WAYS; i++) {
      // Nine tenths spent of each bucket, and a thousandth of each window: a flood of those evicts itself.
      if (i % 2 === 0) put(table, 0, keyOf(i), [1, 0, 10, 0.0001])
      else put(table, 0, keyOf(i), [1, 1000, 1000, 0], WINDOW)
    }
    for (let i = 0; i < 100; i++) table.write(table.claim(0, i, 1, WINDOW, 0, 0, 0), 1, 1000, 1000, 0)
    const kept = Array.from({ length: WAYS / 2 }, (_, i) => 2 * i)
    expect(kept.map((i) => table.find(0, keyOf(i).low, keyOf(i).high))).toEqual(kept)
    expect(table.forcedEvictions).toBe(100)
  })

  test('leaves leased tokens and resets alone while anything else is there', () => {
    const table = fullTable([0, 0, 10, 0.0001])
    const kept = [put(table, 0, keyOf(100), [5, 1000, 10, 0], LEASE_BLOCK), put(table, 0, keyOf(101), [1, 1000, 1, 0], RESET)]
    for (let i = 0; i < WAYS - kept.length; i++) table.write(table.claim(0, i, 1, BUCKET, 0, 0, bits(kept)), 10, 0, 10, 0.0001)
    const claimed = Array.from({ length: 100 }, (_, i) => table.claim(0, i, 2, BUCKET, 0, 0, 0))
    expect(claimed.filter((slot) => kept.includes(slot))).toEqual([])
  })

  test('spares the slots in use, and finds none where all are', () => {
    const table = fullTable([5, 0, 10, 0.0001])
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, ~(1 << 31))).toBe(31)
    expect(table.claim(0, 2, 2, BUCKET, 0, 0, -1)).toBe(-1)
    expect(table.find(0, 2, 2)).toBe(-1)
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([WAYS, 1])
  })
})

describe('a claim that is declined', () => {
  test.each([
    ['a note or a measure, where anything is spent', [9, 0, 10, 0.0001], 0],
    ['a block of leased tokens, where all is spent', [0, 0, 10, 0.0001], 1],
  ] satisfies [string, SlotRecord, number][])('for %s, evicts nothing and counts nothing', (_, record, share) => {
    const table = fullTable(record)
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, 0, share)).toBe(-1)
    expect(table.find(0, 1, 1)).toBe(-1)
    expect(table.forcedEvictions).toBe(0)
  })

  test('is no longer when something less spent is there, and that counts', () => {
    const table = fullTable([0, 0, 10, 0.0001])
    table.write(4, 1, 0, 10, 0.0001)
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, 0, 1)).toBe(4)
    expect(table.forcedEvictions).toBe(1)
  })
})

describe('when a thread dies', () => {
  const key = keyOf(1)
  const survivor = keyOf(2)

  test('its locks are freed, and nobody else’s', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES * 4)
    const table = new SharedTable(buffer, 1)
    table.lock(1)
    await runThread('dying-thread', { buffer, owner: 2, sets: [0, 2, 3], key, dies: 'before it writes' })
    expect(table.freeLocksOf(2)).toBe(3)
    expect(table.freeLocksOf(2)).toBe(0)
    await runThread('dying-thread', { buffer, owner: 3, sets: [0, 2, 3], key, dies: 'before it writes' })
    expect([table.freeLocksOf(3), table.freeLocksOf(1)]).toEqual([3, 1])
  })

  test.each(['while it writes', 'between claim and write'])('%s, the new record is forgotten and the others stay', async (dies) => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = new SharedTable(buffer, 1)
    const slot = put(table, 0, survivor, [5, 0, 10, 1])
    await runThread('dying-thread', { buffer, owner: 2, sets: [0], key, dies })
    expect(table.occupiedSlots).toBe(2)
    expect(table.freeLocksOf(2)).toBe(1)
    expect(table.find(0, key.low, key.high)).toBe(-1)
    expect(table.find(0, survivor.low, survivor.high)).toBe(slot)
    expect([table.occupiedSlots, table.level(slot)]).toEqual([1, 5])
  })

  test('while it writes, a record that was there before is forgotten too', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = new SharedTable(buffer, 1)
    put(table, 0, key, [5, 0, 10, 1])
    await runThread('dying-thread', { buffer, owner: 2, sets: [0], key, dies: 'while it writes' })
    table.freeLocksOf(2)
    expect(table.find(0, key.low, key.high)).toBe(-1)
    expect(table.occupiedSlots).toBe(0)
  })

  test('having written, its records stay', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = new SharedTable(buffer, 1)
    const slot = put(new SharedTable(buffer, 2), 0, key, [5, 0, 10, 1])
    await runThread('dying-thread', { buffer, owner: 2, sets: [0], key, dies: 'before it writes' })
    expect(table.freeLocksOf(2)).toBe(1)
    expect(table.find(0, key.low, key.high)).toBe(slot)
  })
})

function keyOf(number: number, high = 5): Key {
  return { low: (number + 1) * 0x1_0001, high }
}

function put(table: SharedTable, set: number, { low, high }: Key, record: SlotRecord, kind = BUCKET): number {
  const slot = table.claim(set, low, high, kind, 0, 0, 0)
  table.write(slot, ...record)
  return slot
}

function bits(slots: readonly number[]): number {
  return slots.reduce((all, slot) => all | (1 << wayOf(slot)), 0)
}

/** One set with the record in every slot. */
function fullTable(record: SlotRecord): SharedTable {
  const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
  for (let i = 0; i < WAYS; i++) put(table, 0, keyOf(i), record)
  return table
}
