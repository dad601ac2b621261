import { expect, test } from 'vitest'
import { SharedTable } from '../../table/shared-table.ts'
import { LEASE_BLOCK, newTableBuffer } from '../../table/table-layout.ts'
import { putTokenBack, takeOut } from './key-leases.ts'

const END_MS = 1000

function newBlock() {
  const table = new SharedTable(newTableBuffer(64 * 1024), 1)
  const place = { set: 0, blockLow: 1, high: 1, endMs: END_MS }
  table.write(table.claim(0, place.blockLow, place.high, LEASE_BLOCK, 0, 0, 0), 5, END_MS, 8, 0)
  return { table, place }
}

test('what is put back after the rest was taken out can be taken out too', () => {
  const { table, place } = newBlock()
  expect(takeOut(table, place, false)).toBe(5)
  expect(putTokenBack(table, place, 900)).toBe(true)
  expect(takeOut(table, place, true)).toBe(1)
})

test('nothing is put back into a block that was taken out at its end, even by a thread that read the clock before it', () => {
  const { table, place } = newBlock()
  expect(takeOut(table, place, true)).toBe(5)
  expect(putTokenBack(table, place, 999)).toBe(false)
  expect(takeOut(table, place, true)).toBe(0)
})
