import { expect, test } from 'vitest'
import { bucketLimit } from '../../../../test/support/store/charging.ts'
import { LeaseReturns } from './lease-returns.ts'

test('the end waits for all that is going back, also for what has not left yet', async () => {
  let givenBack = 0
  const table = { lock() {}, unlock() {} }
  const records = { takeOut: () => 1 }
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
  const returns = new LeaseReturns(table as never, records as never, shared as never, 1000, listener)
  const limit = bucketLimit(1, 1000)
  for (let i = 0; i < 500; i++) returns.add({ key: `${i}`, limit, set: 0, low: i, high: 0, endMs: 1000, leasedWallMs: 0 })
  void returns.sweep(1000)
  await returns.endAll()
  expect(givenBack).toBe(500)
})
