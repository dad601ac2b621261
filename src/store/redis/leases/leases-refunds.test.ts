import { afterAll, beforeAll, expect, test } from 'vitest'
import { LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
import { RedisServer } from '../../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../../test/support/redis/redis-suite.ts'
import { sized } from '../../../../test/support/run/property-runs.ts'
import { bucketLimit } from '../../../../test/support/store/charging.ts'

const SIZE = 1000
const LIMIT = bucketLimit(0.000_001, SIZE)

describeWithRedis('hits of a leased limit', () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.close())

  test('that are given back at another instance are leased again, however often', async () => {
    const fleet = await LeasedFleet.start({ redis, leaseMs: 1000 })
    const [one, other] = [fleet.newInstance(), fleet.newInstance()]
    // More than the limit in all.
    const rounds = sized(8, 20)
    let passed = 0
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < 200; i++) {
        await fleet.time.advance(1)
        void one.take(one.open(LIMIT)).then(({ outcome }) => {
          if (outcome === true) passed++
        })
      }
      const given = other.refund(other.open(LIMIT), 200)
      await fleet.time.advance(0)
      await given
    }
    await fleet.time.advance(1)
    expect(passed).toBe(rounds * 200)
    expect(one.decidedBy.lease).toBeGreaterThan(one.decidedBy.redis)
    expect(one.ownLeft(one.open(LIMIT))).toBeGreaterThan(0)
  })
})
