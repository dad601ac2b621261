import { expect, test } from 'vitest'
import { debugFacts, logIn, SECRET_ENV } from '../../conformance/debug-login.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { HARDLY_ANY, twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const OPTIONS = { bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1000, HARDLY_ANY)] })), env: SECRET_ENV }

describeWithRedis('a debug session on several instances', () => {
  const shared = redisOfSuite()

  test('that one instance opened works on the other, and one that logs out is out on both, alone', async () => {
    const redis = shared()
    const [one, other] = await twoSharing(redis.url, OPTIONS)
    const [mine, yours] = [(await logIn(one)).pair, (await logIn(one)).pair]
    expect([await isDebugged(one, mine), await isDebugged(other, mine)]).toEqual([true, true])
    await logOut(one, mine)
    expect(await isDebugged(one, mine)).toBe(false)
    await until(async () => !(await isDebugged(other, mine)))
    expect([await isDebugged(one, yours), await isDebugged(other, yours)]).toEqual([true, true])
    // It does not lie in Redis for ever.
    expect(await redis.command('PTTL', 'edge:logouts')).toBeGreaterThan(0)
  })
})

async function isDebugged(edge: Edge, cookie: string): Promise<boolean> {
  return 'decision' in debugFacts(await edge.decide({ fields: [['Cookie', cookie]] }))
}

async function logOut(edge: Edge, cookie: string): Promise<void> {
  expect((await edge.post('/v1/debug/logout', [['Cookie', cookie]])).status).toBe(204)
}
