import { describe, expect, test } from 'vitest'
import { runThread } from '../../../test/support/threads/threads.ts'
import { BUCKET } from '../../limiter/limit.ts'
import { Resets } from './embedded-counter.ts'
import { SharedTable } from './shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from './table-layout.ts'

const DAY_MS = 86_400_000
const [LOW, HIGH] = [0x1234_5678, 7]

function tableWithCounter(buffer = newTableBuffer(MIN_TABLE_BYTES)): SharedTable {
  const table = new SharedTable(buffer, 1)
  table.write(table.claim(0, LOW, HIGH, BUCKET, 0, 0, 0), 0, 0, 10, 0.001)
  return table
}

describe('a reset', () => {
  test('forgets the counter and is known by its moment', () => {
    const table = tableWithCounter()
    const resets = new Resets(table)
    expect(resets.momentOf(0, LOW, HIGH)).toBe(0)
    expect(resets.note(0, LOW, HIGH, 5000, 0, 0, 5000)).toBe(true)
    expect(table.find(0, LOW, HIGH)).toBe(-1)
    expect(resets.momentOf(0, LOW, HIGH)).toBe(5000)
    expect([4999, 5000, 5001].map((takenMs) => resets.isSince(0, LOW, HIGH, takenMs))).toEqual([true, true, false])
    expect(table.occupiedSlots).toBe(1)
  })

  test('of an earlier moment than the last one, or of the same, does nothing', () => {
    const table = tableWithCounter()
    const resets = new Resets(table)
    resets.note(0, LOW, HIGH, 5000, 0, 0, 5000)
    table.write(table.claim(0, LOW, HIGH, BUCKET, 0, 0, 0), 3, 0, 10, 0.001)
    for (const momentMs of [4000, 5000]) expect(resets.note(0, LOW, HIGH, momentMs, 0, 0, 6000)).toBe(false)
    expect(table.level(table.find(0, LOW, HIGH))).toBe(3)
    expect(resets.momentOf(0, LOW, HIGH)).toBe(5000)
  })

  test('at the present time is later than the last one of its counter, also where another thread has told of an earlier one since', () => {
    const table = tableWithCounter()
    const resets = new Resets(table)
    resets.note(0, LOW, HIGH, 5000, 0, 0, 5000)
    table.lastResetMs = 100
    expect(resets.nextMoment(0, LOW, HIGH, 200)).toBeGreaterThan(5000)
    expect(resets.nextMoment(0, LOW + 1, HIGH, 200)).toBe(200)
    expect(resets.nextMoment(0, LOW + 1, HIGH, 50)).toBeGreaterThan(100)
  })

  test('is kept for a day, and until the window has ended where that is later', () => {
    for (const [windowEndMs, keptUntilMs] of [
      [0, 5000 + DAY_MS],
      [5000 + 30 * DAY_MS, 5000 + 30 * DAY_MS],
    ] as const) {
      const table = tableWithCounter()
      new Resets(table).note(0, LOW, HIGH, 5000, windowEndMs, 0, 5000)
      const slot = [...Array(32).keys()].find((each) => table.isOccupied(each))!
      expect(table.worthMs(slot, 0, keptUntilMs - 1)).toBeGreaterThan(1)
      expect(table.worthMs(slot, 0, keptUntilMs)).toBe(0)
    }
  })

  test('by a thread that dies over it leaves the set to others, and can be done again', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = tableWithCounter(buffer)
    await runThread('resetting-thread', { buffer, owner: 2, set: 0, low: LOW, high: HIGH })
    expect(table.freeLocksOf(2)).toBe(1)
    const resets = new Resets(table)
    expect(resets.momentOf(0, LOW, HIGH)).toBe(0)
    expect(resets.note(0, LOW, HIGH, 6000, 0, 0, 6000)).toBe(true)
    expect([table.find(0, LOW, HIGH), resets.momentOf(0, LOW, HIGH), table.occupiedSlots]).toEqual([-1, 6000, 1])
  })
})
