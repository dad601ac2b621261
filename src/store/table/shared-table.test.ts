import { describe, expect, test } from 'vitest'
import { runThread } from '../../../test/support/threads/threads.ts'
import { BUCKET, IN_FLIGHT, WINDOW } from '../../limiter/limit.ts'
import { SharedTable } from './shared-table.ts'
import {
  LEASE_BLOCK,
  LEASE_NOTE,
  LEASE_USE,
  MAX_RULES,
  MIN_TABLE_BYTES,
  newTableBuffer,
  RESET,
  tableBytesFor,
  wayOf,
} from './table-layout.ts'

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
    ['the bucket that is full soonest', BUCKET, [5, 0, 10, 0.0001], 0, 0, 1],
    ['the window that ends soonest', WINDOW, [999, 50, 1000, 0], 0, 0, 1],
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

  test('leaves leased tokens and resets alone while anything else is there', () => {
    const table = fullTable([0, 0, 10, 0.0001])
    const kept = [put(table, 0, keyOf(100), [5, 1000, 10, 0], LEASE_BLOCK), put(table, 0, keyOf(101), [1, 1000, 1, 0], RESET)]
    for (let i = 0; i < WAYS - kept.length; i++) table.write(table.claim(0, i, 1, BUCKET, 0, 0, bits(kept)), 10, 0, 10, 0.0001)
    const claimed = Array.from({ length: 100 }, (_, i) => table.claim(0, i, 2, BUCKET, 0, 0, 0))
    expect(claimed.filter((slot) => kept.includes(slot))).toEqual([])
  })

  test('spares the slots in use, and finds none where all are, which counts', () => {
    const table = fullTable([5, 0, 10, 0.0001])
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, ~(1 << 31))).toBe(31)
    expect(table.claim(0, 2, 2, BUCKET, 0, 0, -1)).toBe(-1)
    expect(table.find(0, 2, 2)).toBe(-1)
    expect([table.occupiedSlots, table.forcedEvictions]).toEqual([WAYS, 2])
  })
})

describe('a claim that is declined', () => {
  test('for a lease, a note or a measure evicts nothing and counts nothing', () => {
    const table = fullTable([9, 0, 10, 0.0001])
    expect(table.claim(0, 1, 1, LEASE_BLOCK, 0, 0, 0, 0)).toBe(-1)
    expect(table.find(0, 1, 1)).toBe(-1)
    expect(table.forcedEvictions).toBe(0)
  })

  test('for a counter that means something for less long than all others counts as an eviction, and changes none of them', () => {
    const table = fullTable([0, 0, 10, 0.0001])
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, 0, 99_999)).toBe(-1)
    expect([table.find(0, 1, 1), table.forcedEvictions]).toEqual([-1, 1])
    table.write(4, 1, 0, 10, 0.0001)
    expect(table.claim(0, 1, 1, BUCKET, 0, 0, 0, 99_999)).toBe(4)
    expect(table.forcedEvictions).toBe(2)
  })
})

describe('the number of a rule', () => {
  test('is its own, fits into a record, and is the same in all threads', () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const [one, two] = [new SharedTable(buffer, 1), new SharedTable(buffer, 2)]
    // Some of them begin at the same number.
    const hashes = Array.from({ length: 800 }, (_, i) => (i < 780 ? Math.imul(i, 0x9e37_79b1) : (i - 779) * MAX_RULES))
    const numbers = hashes.map((hash) => one.ruleNumber(hash))
    expect(new Set(numbers).size).toBe(hashes.length)
    expect([Math.min(...numbers) > 0, Math.max(...numbers) <= MAX_RULES]).toEqual([true, true])
    expect(hashes.map((hash) => two.ruleNumber(hash))).toEqual(numbers)
  })

  test('is shared when there are none left', () => {
    const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
    for (let i = 1; i <= MAX_RULES; i++) table.ruleNumber(i)
    const number = table.ruleNumber(0x7654_3210)
    expect(number).toBe(table.ruleNumber(0x7654_3210))
    expect([number > 0, number <= MAX_RULES]).toEqual([true, true])
  })

  test('stays apart from the kind and the tag of its records', () => {
    const table = new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1)
    const kinds = [BUCKET, WINDOW, IN_FLIGHT, LEASE_BLOCK, LEASE_NOTE, LEASE_USE, RESET]
    for (const [i, kind] of kinds.entries()) {
      const slot = table.claim(0, 0x1_ffff + i, -1, kind, 0, 0, 0)
      table.write(slot, 1, 2, 3, 4)
      expect(table.rule(slot)).toBe(0)
      table.adopt(slot, MAX_RULES - i)
      table.adopt(slot, 7)
      expect([table.kind(slot), table.rule(slot), table.low(slot), table.high(slot)]).toEqual([kind, MAX_RULES - i, 0x1_ffff + i, -1])
    }
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
