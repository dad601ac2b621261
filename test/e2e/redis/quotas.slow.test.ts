import { expect, test } from 'vitest'
import { bundle, policy, windowRule } from '../../support/bundles/bundles.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { ALL } from '../../support/redis/shared-quotas.ts'
import { admitted, answersBy, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer } from '../../support/service/http.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

describeWithRedis('quotas, costs and overdrafts that two instances share', () => {
  const shared = redisOfSuite()

  test.each(['exact', 'leased'])('a cost other than 1 is taken from the limit of both, and never from a lease, mode %s', async (mode) => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: ALL, env: { EDGE_REDIS_MODE: mode } })
    const answers: Answer[] = []
    for (let i = 0; i < 6; i++) answers.push(await edges[i % 2]!.decide({ uri: '/dear' }))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429, 429])
    expect(answers.slice(0, 3).map(remaining)).toEqual([7, 4, 1])
    for (const edge of edges) expect(await answersBy(edge)).toEqual({ redis: 3, failureMode: 0 })
  })

  test.each([
    ['exact', 'X-Rate'],
    ['exact', 'X-Window'],
    ['leased', 'X-Rate'],
    ['leased', 'X-Window'],
  ])('one overdraws a limit, and no instance lets anything pass until the debt is paid, mode %s, %s', async (mode, key) => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: ALL, env: { EDGE_REDIS_MODE: mode } })
    const spend = (edge: Edge, cost: string): Promise<Answer> =>
      edge.decide({
        uri: '/debt',
        fields: [
          [key, 'a'],
          ['X-Cost', cost],
        ],
      })
    const answers = [await spend(edges[0], '9.5'), await spend(edges[1], '200'), await spend(edges[0], '1'), await spend(edges[1], '1')]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429, 429])
    expect(answers.map(remaining)).toEqual([0, 0, 0, 0])
    // Many at once: the first that finds something left takes it into debt, and it alone.
    const others = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        edges[i % 2]!.decide({
          uri: '/debt',
          fields: [
            [key, 'b'],
            ['X-Cost', '11'],
          ],
        }),
      ),
    )
    expect(admitted(others)).toBe(1)
  })
})

describeWithRedis(
  'a quota in Redis by its clock',
  () => {
    test('begins anew with the next window of its zone, and not before', async () => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const edge = await sharing(redis.url, {
        bundle: bundle(1, policy('p', { rules: [windowRule('r', [], { limit: 3, period: '1h', timezone: 'Asia/Kathmandu' })] })),
      })
      // The hours of Kathmandu begin at a quarter past: a minute before that.
      redis.stepClock(HOUR_MS - ((Date.now() - 15 * MINUTE_MS) % HOUR_MS) - MINUTE_MS)
      expect(await edge.decideTimes(4)).toEqual([200, 200, 200, 429])
      const { headers } = await edge.decide()
      expect(Number(headers['retry-after'])).toBeLessThanOrEqual(60)
      redis.stepClock(MINUTE_MS + 1000)
      expect(await edge.decideTimes(4)).toEqual([200, 200, 200, 429])
      expect(Number((await edge.decide()).headers['retry-after'])).toBeGreaterThan(3000)
    })
  },
  'libfaketime',
)
