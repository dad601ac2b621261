import { expect, test } from 'vitest'
import { SharedTable } from '../../table/shared-table.ts'
import { newTableBuffer } from '../../table/table-layout.ts'
import { KeyLeases } from './key-leases.ts'

const LEASE_MS = 1000
const table = () => new SharedTable(newTableBuffer(64 * 1024), 1)
const newKey = (of: SharedTable, low: number, salt = 7) => {
  const leases = new KeyLeases(of, LEASE_MS, () => 0)
  leases.locate(0, low, 1, salt, 1)
  return leases
}

test('what was looked at of one key stays, whatever is looked at of others', () => {
  const shared = table()
  const [one, two] = [newKey(shared, 0x1000_0000), newKey(shared, 0x2000_0000)]
  one.add(1, 8, 50, LEASE_MS, 0)
  two.add(1, 3, 20, LEASE_MS, 0)
  one.read(1)
  two.read(1)
  two.noteRefused(500, 500, 1)
  expect([one.left, one.seen, two.left, two.seen]).toEqual([8, 50, 3, 20])
  expect([one.readNote(2), two.readNote(2)]).toEqual(['none', 'refused'])
})

test('an object that is placed at another key knows nothing of the one before', () => {
  const shared = table()
  const leases = newKey(shared, 0x1000_0000)
  leases.add(1, 8, 50, LEASE_MS, 0)
  leases.read(1)
  leases.locate(0, 0x2000_0000, 1, 7, 1)
  expect(leases.from).toBe(-1)
  leases.read(1)
  expect([leases.from, leases.left, leases.seen]).toEqual([-1, 0, 0])
})

test('a key that is forgotten has neither tokens nor notes nor use, and says how many tokens nobody had used', () => {
  const shared = table()
  const [one, other] = [newKey(shared, 0x1000_0000), newKey(shared, 0x1000_0000, 8)]
  one.add(1, 8, 50, LEASE_MS, 0)
  one.read(1)
  one.add(1, 5, 45, LEASE_MS + 1, 1)
  one.noteRefused(500, 500, 1)
  other.add(1, 4, 40, LEASE_MS, 0)
  // Those of another limit of the key too: an override that is over must not bring them back.
  expect(one.forget()).toBe(17)
  other.read(2)
  expect(other.left).toBe(0)
  one.read(2)
  one.measure(2)
  expect([one.from, one.left, one.used, one.readNote(2)]).toEqual([-1, 0, 0, 'none'])
  expect(one.forget()).toBe(0)
})
