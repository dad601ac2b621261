import { expect, test } from 'vitest'
import { bucketLimit } from '../../../../test/support/store/charging.ts'
import { SharedTable } from '../../table/shared-table.ts'
import { LEASE_BLOCK, newTableBuffer } from '../../table/table-layout.ts'
import { LeaseReturns } from './lease-returns.ts'

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
  const returns = new LeaseReturns(table, shared as never, 1000, listener)
  for (let i = 0; i < 500; i++) {
    const [set, blockLow, high] = [i % table.setCount, (i << 16) | 1, i]
    table.write(table.claim(set, blockLow, high, LEASE_BLOCK, 0, 0, 0), 1, 1000, 1, 0)
    returns.add({ key: `${i}`, limit: bucketLimit(1, 1000), set, blockLow, high, endMs: 1000, leasedMs: 0 })
  }
  void returns.sweep(1000)
  await returns.endAll()
  expect(givenBack).toBe(500)
})
