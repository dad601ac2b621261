import { expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY, sharing } from '../support/redis/sharing-edge.ts'
import type { Edge } from '../support/service/edge.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const BURST = 10
const RULES = bundle(1, policy('api', { rules: [bucketRule('key', ['header:x-key'], BURST, HARDLY_ANY)] }))

describeWithRedis(
  "what operators change when Redis's clock is set",
  () => {
    test('back by an hour: an override is in force all the same, once, and on instances that start later', async () => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const [one, other] = await Promise.all([instance(redis), instance(redis)])
      await set(one, 'bob', { block: true })
      redis.stepClock(-HOUR_MS)
      expect(admitted(await decide(other, BURST + 1))).toBe(BURST)
      expect((await set(one, 'alice', { multiply: 3 })).status).toBe(201)
      await until(async () => (await decide(other, 1))[0] === 200)
      const rest = [...(await decide(one, 2 * BURST)), ...(await decide(other, 2 * BURST))]
      expect(1 + admitted(rest)).toBe(2 * BURST)
      const late = await instance(redis)
      await until(async () => (await decide(late, 1, 'bob'))[0] === 403)
      for (const edge of [one, other]) expect(await decide(edge, 1, 'bob')).toEqual([403])
    })

    test('forward by an hour: what should be over is over, the rest stays, and a new one is in force', async () => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const [one, other] = await Promise.all([instance(redis), instance(redis)])
      await set(one, 'alice', { block: true, until: '30m' })
      await set(one, 'bob', { block: true, until: '2h' })
      for (const edge of [one, other]) await until(async () => (await decide(edge, 1, 'bob'))[0] === 403)
      redis.stepClock(HOUR_MS)
      for (const edge of [one, other]) await until(async () => (await decide(edge, 1))[0] === 200)
      expect((await set(other, 'carol', { block: true })).status).toBe(201)
      for (const edge of [one, other]) {
        await until(async () => (await decide(edge, 1, 'carol'))[0] === 403)
        expect(await decide(edge, 1, 'bob')).toEqual([403])
      }
    })

    test('back with a failover that lost the last changes: those are written back, and new ones reach everybody', async () => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const [one, other] = await Promise.all([instance(redis), instance(redis)])
      await set(one, 'bob', { block: true })
      const replica = await snapshot(redis)
      const { json } = await set(one, 'carol', { block: true })
      for (const edge of [one, other]) await until(async () => (await decide(edge, 1, 'carol'))[0] === 403)
      redis.stepClock(-HOUR_MS)
      await restore(redis, replica)
      await until(async () => (await redis.command('HLEN', 'edge:{control}:overrides')) === 2)
      expect((await set(one, 'dave', { block: true })).status).toBe(201)
      await until(async () => (await decide(other, 1, 'dave'))[0] === 403)
      expect((await askAdmin(one.adminPort, 'DELETE', `overrides/${json.id}?reason=over`)).status).toBe(204)
      await until(async () => (await decide(other, 1, 'carol'))[0] === 200)
    })
  },
  'libfaketime',
)

function instance({ url }: RedisServer): Promise<Edge> {
  return sharing(url, { bundle: RULES, env: ADMIN_ENV })
}

function set(edge: Edge, key: string, change: object): Promise<AdminResponse> {
  const body = { policy: 'api', rule: 'key', values: { 'header:x-key': key }, until: '10h', reason: 'a test', ...change }
  return askAdmin(edge.adminPort, 'POST', 'overrides', { body })
}

function decide(edge: Edge, times: number, key = 'alice'): Promise<number[]> {
  return edge.decideTimes(times, { fields: [['X-Key', key]] })
}

type Snapshot = ReadonlyMap<string, readonly string[]>

/** What operators have changed, as a replica has it. */
async function snapshot(redis: RedisServer): Promise<Snapshot> {
  const content = new Map<string, readonly string[]>()
  for (const key of (await redis.command('KEYS', 'edge:{control}:*')) as string[]) {
    const isHash = (await redis.command('TYPE', key)) === 'hash'
    const pairs = isHash ? await redis.command('HGETALL', key) : await redis.command('ZRANGE', key, 0, -1, 'WITHSCORES')
    content.set(key, pairs as string[])
  }
  return content
}

/** In one step, as a failover. */
async function restore(redis: RedisServer, content: Snapshot): Promise<void> {
  const keys = [...content.keys()]
  const text = `for i, key in ipairs(KEYS) do
    redis.call('DEL', key)
    local pairs = cjson.decode(ARGV[i])
    for j = 1, #pairs, 2 do
      if string.match(key, ':order$') or string.match(key, ':ends$') then redis.call('ZADD', key, pairs[j + 1], pairs[j])
      else redis.call('HSET', key, pairs[j], pairs[j + 1]) end
    end
  end`
  await redis.command('EVAL', text, keys.length, ...keys, ...[...content.values()].map((pairs) => JSON.stringify(pairs)))
}
