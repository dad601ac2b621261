import { expect, test } from 'vitest'
import { operatedFleets } from '../../support/fleet/operated-fleets.ts'
import { BURST, decide, hasRedis, LONG_LEASES, RULES, reset, told, usedUp } from '../../support/fleet/operated-resets.ts'
import type { RedisServer } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'

describeWithRedis('a reset on one instance of a fleet', () => {
  let redis: RedisServer
  const fleet = operatedFleets(RULES, (started) => {
    redis = started
  })

  test.concurrent.for([
    ['exact', {}],
    ['leased', LONG_LEASES],
  ] as const)('wins over what another one has counted, without Redis being asked again (%s)', async ([, env], owner) => {
    const { instance } = fleet(owner)
    const gate = await gateTo(redis.port, owner)
    const [operated, other] = [await instance(env), await instance(env, `redis://127.0.0.1:${gate.port}`)]
    await usedUp(other)
    await reset(operated)
    await told(operated, other)
    gate.close()
    await until(async () => !(await hasRedis(other)))
    // It decides by its own count, which is new.
    expect(admitted(await decide(other, BURST + 5))).toBe(BURST)
  })

  test.concurrent('wins over leases of another one, and gives nothing twice', async (owner) => {
    const { instance } = fleet(owner)
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    const used = admitted(await decide(other, BURST / 2))
    expect(used).toBe(BURST / 2)
    expect((await metricsOf(other.adminPort)).value('edge_redis_leases')).toBeGreaterThan(0)
    await reset(operated)
    await told(operated, other)
    const [here, there] = [await decide(other, BURST), await decide(operated, BURST)]
    expect(admitted([...here, ...there])).toBe(BURST)
  })

  test.concurrent('is about that caller alone', async (owner) => {
    const { instance } = fleet(owner)
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    await usedUp(other)
    await usedUp(other, 'bob')
    await reset(operated)
    await until(async () => (await decide(other, 1))[0] === 200)
    expect(await decide(other, 2, 'bob')).toEqual([429, 429])
  })

  test.concurrent('is known to an instance that starts later from its state file', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const [operated, first] = [await instance(), await instance({ EDGE_STATE_FILE: `${redis.directory}/${prefix}state` })]
    await usedUp(first)
    await first.stop()
    await reset(operated)
    await operated.stop()
    const gate = await gateTo(redis.port, owner)
    const again = await instance({ EDGE_STATE_FILE: `${redis.directory}/${prefix}state` }, `redis://127.0.0.1:${gate.port}`)
    gate.close()
    await until(async () => !(await hasRedis(again)))
    expect(admitted(await decide(again, BURST + 5))).toBe(BURST)
  })

  test.concurrent('is written back when Redis has lost it, for an instance that starts later from its state file', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const state = { EDGE_STATE_FILE: `${redis.directory}/${prefix}state` }
    const [operated, first] = [await instance(), await instance(state)]
    await usedUp(first)
    await first.stop()
    await reset(operated)
    // All at once: an instance must not write back in between.
    await redis.command('DEL', ...((await redis.command('KEYS', `${prefix}*`)) as string[]))
    await until(async () => ((await redis.command('HLEN', `${prefix}{control}:resets`)) as number) > 0)
    const again = await instance(state)
    expect(admitted(await decide(again, BURST + 5))).toBe(BURST)
  })

  test.concurrent('is written back where another instance has written back an earlier one', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const operated = await instance()
    const [entries, order, facts] = [`${prefix}{control}:resets`, `${prefix}{control}:resets:order`, `${prefix}{control}:facts`]
    const entry = async (): Promise<readonly string[]> => (await redis.command('HGETALL', entries)) as string[]
    await reset(operated)
    const [key, earlier] = await entry()
    await reset(operated)
    const later = await entry()
    expect(later).not.toEqual([key, earlier])
    await redis.command('HSET', entries, key!, earlier!)
    const change = String(Number(await redis.command('HGET', facts, 'changes')) + 1)
    await redis.command('HSET', facts, 'changes', change)
    await redis.command('ZADD', order, change, key!)
    await until(async () => (await entry())[1] === later[1])
  })
})
