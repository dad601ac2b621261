import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { servingOn } from '../../support/workers/workers.ts'

const BUNDLE = bundle(7, policy('a', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('b', { rules: [] }))
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describe('GET status', () => {
  test('says what the instance is and has, with two workers', async () => {
    const stateFile = join(await scratchDirectory(), 'state')
    const edge = await servingOn(2, BUNDLE, { ...ADMIN_ENV, EDGE_STATE_FILE: stateFile })
    const port = adminPortOf(edge)
    await until(async () => (await askAdmin(port, 'GET', 'status')).json.state_file.saved_at !== null)
    const { status, json } = await askAdmin(port, 'GET', 'status')
    expect(status).toBe(200)
    expect(json).toEqual({
      version: JSON.parse(readFileSync('package.json', 'utf8')).version,
      uptime_s: expect.any(Number),
      mode: 'decision_service',
      workers: { configured: 2, alive: 2 },
      bundle: { version: '7', hash: expect.stringMatching(/^[0-9a-f]{64}$/), applied_at: expect.stringMatching(TIME), policies: 2 },
      store: { kind: 'embedded', slots: expect.any(Number), occupied: 0 },
      redis: null,
      state_file: { path: stateFile, saved_at: expect.stringMatching(TIME) },
      shadow_all: null,
      problems: [],
    })
    expect(json.store.slots).toBeGreaterThan(1000)
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

  test('counts the workers that are alive', async () => {
    const mortal = await mortalEdge(2, { bundle: BUNDLE, env: ADMIN_ENV }, (host) => {
      host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0
    })
    await mortal.host.terminate(2)
    await until(() => mortal.events('worker_died').length > 0)
    const { json } = await askAdmin(mortal.edge.adminPort, 'GET', 'status')
    expect(json).toMatchObject({ workers: { configured: 2, alive: 1 } })
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

  test('name a worker that died, until it is replaced', async () => {
    let mayLive = false
    const mortal = await mortalEdge(2, { bundle: BUNDLE, env: ADMIN_ENV }, (host) => {
      host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0 && !mayLive
    })
    const problems = async () => (await askAdmin(mortal.edge.adminPort, 'GET', 'status')).json.problems
    await mortal.host.terminate(2)
    await until(async () => (await problems()).length > 0)
    expect(await problems()).toMatchObject([{ code: 'worker_died' }])
    mayLive = true
    await until(async () => (await problems()).length === 0)
  })
})

describeWithRedis('GET status of an instance on Redis', () => {
  test('says whether Redis is connected, and how it is used', async () => {
    const redis = await runningRedis()
    const env = { ...ADMIN_ENV, EDGE_REDIS_URL: redis.url, EDGE_REDIS_MODE: 'leased' }
    const edge = await running({ bundle: BUNDLE, env })
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
