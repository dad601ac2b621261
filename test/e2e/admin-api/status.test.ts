import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const BUNDLE = bundle(7, policy('a', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('b', { rules: [] }))
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

test('rules by address that requests without one escape are a problem, and say what the gateway has to send', async () => {
  const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['ip:address'], 1, 0.0001)] })), env: ADMIN_ENV })
  const address = [['X-Forwarded-For', '203.0.113.7'] as const]
  expect(await edge.decideTimes(2, { fields: address })).toEqual([200, 429])
  expect(await edge.decideTimes(3, { fields: [] })).toEqual([200, 200, 200])
  const problems = async () => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
  await until(async () => (await problems()).length > 0)
  expect(await problems()).toEqual([
    {
      code: 'no_address',
      message:
        'rules by ip:address did not apply to 3 requests, because the address of the client is not known: let the gateway send X-Forwarded-For',
      details: [],
      details_in_all: 0,
      since: expect.stringMatching(TIME),
    },
  ])
  expect(edge.logged('no_address')).toMatchObject([{ level: 40, requests: 3 }])
})

describe('variables that are not settings', () => {
  const STRAY = { EDGE_REDIS_URI: 'redis://:hunter2@10.0.0.1', EDGE_REGION: 'hunter2' }

  test('are in the first lines of the log, and problems for as long as the process lives', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, clock, env: { ...ADMIN_ENV, ...STRAY } })
    expect(edge.log.slice(0, 2)).toMatchObject([
      { level: 40, event: 'unknown_variable', variable: 'EDGE_REDIS_URI', suggestion: 'EDGE_REDIS_URL' },
      { level: 40, event: 'unknown_variable', variable: 'EDGE_REGION' },
    ])
    clock.advance(24 * 3_600_000)
    const { problems } = (await askAdmin(edge.adminPort, 'GET', 'status')).json
    expect(problems).toMatchObject([
      { code: 'unknown_variable', message: 'EDGE_REDIS_URI is not a setting and has no effect: did you mean EDGE_REDIS_URL?' },
      { code: 'unknown_variable', message: 'EDGE_REGION is not a setting and has no effect: edge serve --help lists all settings' },
    ])
    expect(JSON.stringify([edge.log, problems])).not.toContain('hunter2')
  })

  test('are counted where there are many', async () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`EDGE_STRAY_${i}`, 'x']))
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...many } })
    expect(await untilLogged(edge, 'unknown_variable', 21)).toHaveLength(21)
    const { problems } = (await askAdmin(edge.adminPort, 'GET', 'status')).json
    expect(problems).toHaveLength(21)
    expect(problems.at(-1).message).toBe('980 further EDGE_ variables are not settings and have no effect')
  })
})

describe('GET status', () => {
  test('names the instance by its host and admin port, counts up, and counts what is stored', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock })
    await edge.decide({ fields: [['X-K', 'alice']] })
    clock.advance(61_999)
    const instance = `${hostname()}:${edge.adminPort}`
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ instance, uptime_s: 61, store: { occupied: 1 } })
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

  test('has the memory of the process, and where Redis is without its password', async () => {
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_REDIS_URL: 'redis://:hunter2@127.0.0.1:1' } })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    expect(json.redis).toMatchObject({ mode: 'exact', address: '127.0.0.1:1' })
    expect(JSON.stringify(json)).not.toContain('hunter2')
    // It is this process, which has grown since it started, but not to a gigabyte in between.
    expect(Math.abs(json.memory_bytes - process.memoryUsage.rss())).toBeLessThan(2 ** 30)
    expect(json.memory_bytes).toBeGreaterThan(2 ** 24)
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
      {
        code: 'bundle_refused',
        message: expect.stringContaining('version 7 stays active: '),
        since: expect.stringMatching(TIME),
        details: [expect.stringContaining('bundle_version: '), expect.stringContaining('policies: ')],
        details_in_all: 2,
      },
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
    expect(await status()).toMatchObject({
      store: { kind: 'redis' },
      redis: { mode: 'leased', address: new URL(redis.url).host, connected: true },
    })
    await redis.close()
    await until(async () => {
      await edge.decide({ fields: [['X-K', 'alice']] })
      return !(await status()).redis.connected
    })
    await until(async () => (await status()).problems.length > 0)
    expect((await status()).problems).toMatchObject([
      { code: 'redis_unavailable', message: expect.stringContaining('grants the whole limit by itself') },
    ])
  })
})
