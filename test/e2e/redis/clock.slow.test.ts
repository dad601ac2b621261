import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Admissions, worstWindow } from '../../support/fleet/admissions.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const HOUR_MS = 3_600_000
const LIMIT = 10
/** An hour brings more than all of it back, a test hardly any. */
const SLOW = bundle(1, policy('p', { rules: [bucketRule('slow', [], LIMIT, 0.01)] }))
const FAST_PER_SECOND = 20
const FAST = bundle(1, policy('p', { rules: [bucketRule('fast', [], LIMIT, FAST_PER_SECOND)] }))

describeWithRedis(
  "Redis's clock",
  () => {
    const shared = redisOfSuite({ hasSteppingClock: true })

    test('steps forward: a fleet gets a burst more at most, and each of its instances none', async () => {
      const redis = shared()
      const [one, other] = await twoSharing(redis.url, { bundle: SLOW })
      const before = [await one.decideTimes(4), await other.decideTimes(LIMIT)]
      expect(before).toEqual([Array(4).fill(200), [...Array(6).fill(200), ...Array(4).fill(429)]])
      redis.stepClock(HOUR_MS)
      const after = [await one.decideTimes(LIMIT), await other.decideTimes(LIMIT)]
      expect(admitted(after[0]!)).toBeLessThanOrEqual(LIMIT - 4)
      expect(admitted(after[1]!)).toBeLessThanOrEqual(LIMIT - 6)
      // And what the step has brought is to be had.
      expect(admitted(after.flat())).toBeGreaterThan(0)
    })

    test('steps back a little: it is waited for, nothing is granted twice, and then the refill goes on', async () => {
      const redis = shared()
      const edges = await twoSharing(redis.url, { bundle: FAST })
      const admissions = new Admissions()
      await drain(edges, admissions)
      for (let steps = 0; steps < 2; steps++) {
        redis.stepClock(-500)
        const seen = admissions.tokens
        await until(async () => {
          for (const edge of edges) await admissions.asking(() => edge.decide())
          return admissions.tokens >= seen + 5
        })
      }
      expect(worstWindow(admissions.all, FAST_PER_SECOND / 1000).burst).toBeLessThanOrEqual(LIMIT + 1e-6)
    })

    test('goes forth and back again and again: what a step brings is granted once', async () => {
      const redis = shared()
      const [burst, perSecond, stepMs] = [20, 10, 900]
      const rules = [bucketRule('r', [], burst, perSecond)]
      const edges = await twoSharing(redis.url, { bundle: bundle(1, policy('p', { rules })) })
      const admissions = new Admissions()
      const askTimes = async (times: number) => {
        for (let i = 0; i < times; i++) await admissions.asking(() => edges[i % 2]!.decide())
      }
      await askTimes(18)
      for (let steps = 0; steps < 5; steps++) {
        redis.stepClock(stepMs)
        await askTimes(6)
        redis.stepClock(-stepMs)
        await askTimes(2)
      }
      const aStep = (perSecond * stepMs) / 1000
      expect(worstWindow(admissions.all, perSecond / 1000).burst).toBeLessThan(burst + aStep + 0.01)
    })

    test('steps back by an hour: it is believed, the refill goes on, and nothing is granted twice', async () => {
      const redis = shared()
      const edges = await twoSharing(redis.url, { bundle: FAST })
      const admissions = new Admissions()
      await drain(edges, admissions)
      redis.stepClock(-HOUR_MS)
      const seen = admissions.tokens
      await until(async () => {
        for (const edge of edges) await admissions.asking(() => edge.decide())
        return admissions.tokens >= seen + 5
      })
      expect(worstWindow(admissions.all, FAST_PER_SECOND / 1000).burst).toBeLessThanOrEqual(LIMIT + 1e-6)
    })
  },
  'libfaketime',
)

async function drain(edges: readonly Edge[], admissions: Admissions): Promise<void> {
  for (let isEmpty = false; !isEmpty; ) {
    for (const edge of edges) isEmpty = (await admissions.asking(() => edge.decide())).status === 429
  }
}
