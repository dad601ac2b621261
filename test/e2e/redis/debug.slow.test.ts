import { expect, test } from 'vitest'
import { debugFacts, logIn, SECRET_ENV } from '../../conformance/debug-login.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { HARDLY_ANY, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import type { Edge } from '../../support/service/edge.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const OPTIONS = { bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1000, HARDLY_ANY)] })), env: SECRET_ENV }

describeWithRedis('a debug session on several instances', () => {
  const shared = redisOfSuite()

  test('that logs out while Redis is away is out there at once, and on the other when Redis is back', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const one = await sharing(`redis://${gate.address}`, OPTIONS)
    const other = await sharing(redis.url, OPTIONS)
    const { pair } = await logIn(one)
    gate.refuse()
    gate.cut()
    await until(async () => !(await hasRedis(one)))
    await logOut(one, pair)
    expect([await isDebugged(one, pair), await isDebugged(other, pair)]).toEqual([false, true])
    await gate.accept()
    await until(async () => !(await isDebugged(other, pair)))
  })

  test('where Redis refuses to share logouts, that is said once, and decisions do not suffer', async () => {
    const redis = shared()
    await redis.command('ACL', 'SETUSER', 'edge', 'on', '>pw', '~*', '+@all', '-@sortedset')
    const edge = await sharing(`redis://edge:pw@${redis.address}`, OPTIONS)
    await until(async () => (await refusalsOf(redis, 'zrangebyscore')) > 1)
    expect(await untilLogged(edge, 'logouts_not_shared')).toMatchObject([{ reason: expect.stringContaining('NOPERM') }])
    expect(await edge.metric('edge_redis_circuit_changes_total{to="open"}')).toBe(0)
    await redis.command('ACL', 'SETUSER', 'edge', '+@all')
    await until(() => logged(edge, 'logouts_shared').length > 0)
    expect(await untilLogged(edge, 'logouts_not_shared')).toHaveLength(1)
  })

  test('an instance that starts after the logout knows of it', async () => {
    const redis = shared()
    const one = await sharing(redis.url, OPTIONS)
    const { pair } = await logIn(one)
    await logOut(one, pair)
    const late = await sharing(redis.url, OPTIONS)
    await until(async () => !(await isDebugged(late, pair)))
  })
})

/** How often a command was refused. */
async function refusalsOf(redis: RedisServer, command: string): Promise<number> {
  const entries = (await redis.command('ACL', 'LOG')) as (string | number)[][]
  const found = entries.find((entry) => entry.includes(command))
  return found === undefined ? 0 : Number(found[found.indexOf('count') + 1])
}

function logged(edge: Edge, name: string): Record<string, unknown>[] {
  return edge.log.filter(({ event }) => event === name)
}

async function isDebugged(edge: Edge, cookie: string): Promise<boolean> {
  return 'decision' in debugFacts(await edge.decide({ fields: [['Cookie', cookie]] }))
}

async function logOut(edge: Edge, cookie: string): Promise<void> {
  expect((await edge.post('/v1/debug/logout', [['Cookie', cookie]])).status).toBe(204)
}
