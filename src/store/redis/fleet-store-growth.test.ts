import { expect, test } from 'vitest'
import { finish, LEASE_MS } from '../../../test/support/fleet/lease-steps.ts'
import { LeasedFleet } from '../../../test/support/fleet/leased-fleet.ts'
import { runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { bucketLimit, dayLimit, takeRows } from '../../../test/support/store/charging.ts'
import type { Purpose } from '../counter-store.ts'

describeWithRedis('a reservation that grows in a fleet', () => {
  test('is counted as no decision, whoever answers', async () => {
    const fleet = await LeasedFleet.start({ redis: await runningRedis(), leaseMs: LEASE_MS })
    const one = fleet.newInstance()
    const rows = [bucketLimit(2 ** -20, 10), dayLimit(100)].map((limit, i) => {
      return { counter: one.open(limit, false, String(i)), cost: 9 }
    })
    const take = async (purpose: Purpose) =>
      (await finish(fleet, takeRows(one.store, rows, fleet.time.nowMs(), fleet.time.wallMs(), purpose))).taken
    expect([await take('decision'), await take('growth'), await take('decision')]).toEqual([true, true, false])
    expect(one.decidedBy).toMatchObject({ redis: 2, failure_mode: 0 })
    fleet.isUnreachable = true
    expect([await take('growth'), await take('decision')]).toEqual(['unavailable', 'unavailable'])
    expect(one.decidedBy).toMatchObject({ redis: 2, failure_mode: 1 })
  })
})
