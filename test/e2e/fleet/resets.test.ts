import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { type RedisServer, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY, sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const BURST = 20
const RULES = bundle(1, policy('api', { rules: [bucketRule('key', ['header:x-key'], BURST, HARDLY_ANY)] }))
/** So long that nothing is forgotten while a test runs unless it is told to be. */
const LONG_LEASES = { EDGE_REDIS_MODE: 'leased', EDGE_REDIS_LEASE_MS: '60000' }

describeWithRedis('a reset on one instance of a fleet', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let prefix = ''
  let prefixes = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
  })

  beforeEach(() => {
    prefix = `edge${prefixes++}:`
  })

  function instance(env: Readonly<Record<string, string>> = {}, url = redis.url): Promise<Edge> {
    return sharing(url, { bundle: RULES, env: { ...ADMIN_ENV, EDGE_REDIS_PREFIX: prefix, ...env } })
  }

  test.each([
    ['exact', {}],
    ['leased', LONG_LEASES],
  ])('wins over what another one has counted, without Redis being asked again (%s)', async (_, env) => {
    const gate = await gateTo(redis.port)
    const [operated, other] = [await instance(env), await instance(env, `redis://127.0.0.1:${gate.port}`)]
    await usedUp(other)
    await reset(operated)
    await polled()
    gate.close()
    await until(async () => !(await hasRedis(other)))
    // It decides by its own count, which is new.
    expect(admitted(await decide(other, BURST + 5))).toBe(BURST)
  })

  test('wins over refusals that another one remembers', async () => {
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    await usedUp(other)
    await reset(operated)
    await until(async () => (await decide(other, 1))[0] === 200)
    expect(admitted(await decide(other, BURST + 5))).toBe(BURST - 1)
  })

  test('wins over leases of another one, and gives nothing twice', async () => {
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    const used = admitted(await decide(other, BURST / 2))
    expect(used).toBe(BURST / 2)
    expect((await metricsOf(other.adminPort)).value('edge_redis_leases')).toBeGreaterThan(0)
    await reset(operated)
    await polled()
    const [here, there] = [await decide(other, BURST), await decide(operated, BURST)]
    expect(admitted([...here, ...there])).toBe(BURST)
  })

  test('is about that caller alone', async () => {
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    await usedUp(other)
    await usedUp(other, 'bob')
    await reset(operated)
    await until(async () => (await decide(other, 1))[0] === 200)
    expect(await decide(other, 2, 'bob')).toEqual([429, 429])
  })

  test('is known to an instance that starts later from its state file', async () => {
    const [operated, first] = [await instance(), await instance({ EDGE_STATE_FILE: `${redis.directory}/${prefix}state` })]
    await usedUp(first)
    await first.stop()
    await reset(operated)
    await operated.stop()
    const gate = await gateTo(redis.port)
    const again = await instance({ EDGE_STATE_FILE: `${redis.directory}/${prefix}state` }, `redis://127.0.0.1:${gate.port}`)
    gate.close()
    await until(async () => !(await hasRedis(again)))
    expect(admitted(await decide(again, BURST + 5))).toBe(BURST)
  })

  test('that Redis cannot be told of is refused, and nothing is reset', async () => {
    const gate = await gateTo(redis.port)
    const operated = await instance({}, `redis://127.0.0.1:${gate.port}`)
    await usedUp(operated)
    gate.close()
    await until(async () => !(await hasRedis(operated)))
    const response = await askAdmin(operated.adminPort, 'POST', 'counters/reset', { body: RESET })
    expect([response.status, response.json.error.code]).toEqual([503, 'store_unavailable'])
    expect(await decide(operated, 2)).toEqual([429, 429])
  })

  test('is written back when Redis has lost it, for an instance that starts later from its state file', async () => {
    const state = { EDGE_STATE_FILE: `${redis.directory}/${prefix}state` }
    const [operated, first] = [await instance(), await instance(state)]
    await usedUp(first)
    await first.stop()
    await reset(operated)
    await polled()
    for (const key of (await redis.command('KEYS', `${prefix}*`)) as string[]) await redis.command('DEL', key)
    await until(async () => ((await redis.command('HLEN', `${prefix}{desk}:resets`)) as number) > 0)
    const again = await instance(state)
    expect(admitted(await decide(again, BURST + 5))).toBe(BURST)
  })

  /** Both main threads have asked since: a poll looks for four things, and they poll equally often. */
  async function polled(): Promise<void> {
    const before = await calls()
    await until(async () => (await calls()) >= before + 16)
  }

  async function calls(): Promise<number> {
    return (await redis.calls()).get('zrangebyscore') ?? 0
  }
})

const RESET = { policy: 'api', rule: 'key', values: { 'header:x-key': 'alice' }, reason: 'a test' }

async function hasRedis(edge: Edge): Promise<boolean> {
  return (await askAdmin(edge.adminPort, 'GET', 'status')).json.redis.connected
}

async function reset(edge: Edge): Promise<void> {
  expect((await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: RESET })).status).toBe(200)
}

function decide(edge: Edge, times: number, key = 'alice'): Promise<number[]> {
  return edge.decideTimes(times, { fields: [['X-Key', key]] })
}

async function usedUp(edge: Edge, key = 'alice'): Promise<void> {
  expect(admitted(await decide(edge, BURST + 2, key))).toBe(BURST)
}
