import { expect, test } from 'vitest'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { ALL } from '../../support/redis/shared-quotas.ts'
import { remaining, twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Answer } from '../../support/service/http.ts'

describeWithRedis('quotas, costs and overdrafts that two instances share', () => {
  const shared = redisOfSuite()

  test.each([
    ['exact', '/quota', 'X-Caller'],
    ['leased', '/quota', 'X-Caller'],
    ['exact', '/anchored', 'X-Week'],
    ['leased', '/anchored', 'X-Month'],
  ])('a quota admits its limit on both together, mode %s, %s by %s', async (mode, uri, name) => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: ALL, env: { EDGE_REDIS_MODE: mode } })
    const alice = { uri, fields: [[name, 'alice']] } as const
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => edges[i % 2]!.decide(alice)))
    const allowed = answers.filter(({ status }) => status === 200)
    expect(allowed.map(remaining).sort((a, b) => b - a)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    expect(reasons(answers)).toEqual(Array(20).fill('quota_exceeded'))
  })
})

function reasons(answers: readonly Answer[]): (string | undefined)[] {
  return answers.filter(({ status }) => status === 429).map(({ headers }) => headers['x-edge-reason'])
}
