import { expect, test } from 'vitest'
import { bucketLimit } from '../../../../test/support/store/charging.ts'
import { SharedTable } from '../../table/shared-table.ts'
import { LEASE_BLOCK, newTableBuffer } from '../../table/table-layout.ts'
import { LeaseReturns } from './lease-returns.ts'

test.each([
  ['back', false, [3]],
  ['nothing, if it was reset since the lease was granted', true, []],
])('the own count gets %s', async (_, isReset, credits) => {
  const credited: number[] = []
  const table = new SharedTable(newTableBuffer(256 * 1024), 1)
  const local = { table, isResetSince: () => isReset, creditLease: (_place: unknown, tokens: number) => void credited.push(tokens) }
  const shared = { giveBackLease: async () => true }
  const listener = { onHeld() {}, onTokens() {} }
  const returns = new LeaseReturns({ local, shared, leaseMs: 1000, clock: { nowMs: () => 700 }, listener })
  const place = { set: 0, low: 0, blockLow: 1, high: 1 }
  table.write(table.claim(0, 1, 1, LEASE_BLOCK, 0, 0, 0), 10, 1000, 10, 0)
  returns.add({ ...place, key: 'key', limit: bucketLimit(0.01, 1000), endMs: 1000, leasedMs: 0, chargedMs: 0 })
  await returns.endAll()
  expect(credited).toEqual(credits)
})

test('the end waits for all that is going back, also for what has not left yet', async () => {
  let givenBack = 0
  const table = new SharedTable(newTableBuffer(256 * 1024), 1)
  const shared = {
    giveBackLease: async () => {
      await new Promise(setImmediate)
      return true
    },
  }
  const listener = {
    onHeld() {},
    onTokens: (_what: string, tokens: number) => {
      givenBack += tokens
    },
  }
  const local = { table, isResetSince: () => false, creditLease() {} }
  const returns = new LeaseReturns({ local, shared, leaseMs: 1000, clock: { nowMs: () => 0 }, listener })
  for (let i = 0; i < 500; i++) {
    const [set, blockLow, high] = [i % table.setCount, (i << 16) | 1, i]
    table.write(table.claim(set, blockLow, high, LEASE_BLOCK, 0, 0, 0), 1, 1000, 1, 0)
    const limit = bucketLimit(1, 1000)
    returns.add({ key: `${i}`, limit, set, low: 0, blockLow, high, endMs: 1000, leasedMs: 0, chargedMs: 0 })
  }
  void returns.sweep(1000)
  await returns.endAll()
  expect(givenBack).toBe(500)
})
