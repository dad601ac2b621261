import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const BUNDLE = bundle(7, policy('a', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('b', { rules: [] }))
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describe('GET status', () => {
  test('names the instance by its host and admin port, and has the memory of the process', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    expect(json.instance).toBe(`${hostname()}:${edge.adminPort}`)
    expect(json.memory_bytes).toBeGreaterThan(10 * 2 ** 20)
    expect(json.memory_bytes).toBeLessThan(100 * 2 ** 30)
  })

  test('counts up, and counts what is stored', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock })
    await edge.decide({ fields: [['X-K', 'alice']] })
    clock.advance(61_999)
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ uptime_s: 61, store: { occupied: 1 } })
  })

  test('has no bundle, no policies and no state file where there is none, before the first bundle', async () => {
    const edge = await running({ env: ADMIN_ENV })
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ bundle: null, state_file: null, redis: null })
    for (const path of ['top?policy=p', 'counters?policy=p&rule=r']) {
      const { status, json } = await askAdmin(edge.adminPort, 'GET', path)
      expect([status, json.error.message]).toEqual([404, 'there is no policy "p": no bundle is active'])
    }
    await edge.publish(BUNDLE)
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ bundle: { version: '7', policies: 2 } })
    await edge.publish(bundle(8, policy('c', { rules: [] })))
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ bundle: { version: '8', policies: 1 } })
  })

  test('has the override that stops all enforcement, if there is one', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const body = { shadow_all: true, until: '1h', reason: 'a test' }
    const { json: override } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: 'alice' })
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json.shadow_all).toEqual(override)
    await askAdmin(edge.adminPort, 'DELETE', `overrides/${override.id}?reason=over`)
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json.shadow_all).toBeNull()
  })
})

describe('the problems in GET status', () => {
  test('are those of now: a bundle that is refused, until a good one comes', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const problems = async () => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
    await edge.publish('{}')
    await until(async () => (await problems()).length === 1)
    expect(await problems()).toEqual([
      { code: 'bundle_refused', message: expect.stringContaining('version 7 stays active: '), since: expect.stringMatching(TIME) },
    ])
    await edge.publish(bundle(8, policy('c', { rules: [] })))
    await until(async () => (await problems()).length === 0)
  })
})

describeWithRedis('GET status of an instance on Redis', () => {
  test('says whether Redis is connected, and how it is used', async () => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_REDIS_MODE: 'leased' } })
    const status = async () => (await askAdmin(edge.adminPort, 'GET', 'status')).json
    expect(await status()).toMatchObject({ store: { kind: 'redis' }, redis: { mode: 'leased', connected: true } })
    await redis.close()
    await until(async () => {
      await edge.decide({ fields: [['X-K', 'alice']] })
      return !(await status()).redis.connected
    })
    await until(async () => (await status()).problems.length > 0)
    expect((await status()).problems).toMatchObject([{ code: 'redis_unavailable', message: expect.stringContaining('failure mode') }])
  })
})
