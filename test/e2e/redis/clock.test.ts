import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'

const HOUR_MS = 3_600_000
const LIMIT = 10
/** An hour brings more than all of it back, a test hardly any. */
const SLOW = bundle(1, policy('p', { rules: [bucketRule('slow', [], LIMIT, 0.001)] }))

describeWithRedis(
  "Redis's clock",
  () => {
    const shared = redisOfSuite({ hasSteppingClock: true })

    test('steps forward: an instance alone gets nothing for it', async () => {
      const redis = shared()
      const edge = await sharing(redis.url, { bundle: SLOW })
      expect(admitted(await edge.decideTimes(LIMIT + 1))).toBe(LIMIT)
      for (let steps = 0; steps < 3; steps++) {
        redis.stepClock(HOUR_MS)
        expect(admitted(await edge.decideTimes(2))).toBe(0)
      }
    })

    test('steps back by an hour while something is left: that stays, and the refill goes on', async () => {
      const redis = shared()
      const [one, other] = await twoSharing(redis.url, { bundle: SLOW })
      await one.decideTimes(4)
      redis.stepClock(-HOUR_MS)
      expect(remaining(await other.decide())).toBe(5)
      expect(admitted(await other.decideTimes(LIMIT))).toBe(5)
    })
  },
  'libfaketime',
)
