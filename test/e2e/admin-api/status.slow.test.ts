import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { servingOn } from '../../support/workers/workers.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const BUNDLE = bundle(7, policy('a', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('b', { rules: [] }))

describe('the problems in GET status', () => {
  test('of two workers are one', async () => {
    const edge = await servingOn(2, BUNDLE, { ...ADMIN_ENV, EDGE_REDIS_URL: 'redis://127.0.0.1:1' })
    const problems = async () => (await askAdmin(adminPortOf(edge), 'GET', 'status')).json.problems
    await until(() => edge.logged('redis_unavailable').length >= 2)
    await until(async () => (await problems()).length > 0)
    expect(await problems()).toMatchObject([{ code: 'redis_unavailable' }])
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

describe('GET status', () => {
  test('says what the instance is and has, with two workers', async () => {
    const stateFile = join(await scratchDirectory(), 'state')
    const edge = await servingOn(2, BUNDLE, { ...ADMIN_ENV, EDGE_STATE_FILE: stateFile })
    const port = adminPortOf(edge)
    await until(async () => (await askAdmin(port, 'GET', 'status')).json.state_file.saved_at !== null)
    const { status, json } = await askAdmin(port, 'GET', 'status')
    expect(status).toBe(200)
    expect(json).toEqual({
      instance: `${hostname()}:${port}`,
      version: JSON.parse(readFileSync('package.json', 'utf8')).version,
      uptime_s: expect.any(Number),
      memory_bytes: expect.any(Number) as number,
      mode: 'decision_service',
      workers: { configured: 2, alive: 2 },
      bundle: { version: '7', hash: expect.stringMatching(/^[0-9a-f]{64}$/), applied_at: expect.stringMatching(TIME), policies: 2 },
      store: { kind: 'embedded', slots: expect.any(Number), occupied: 0 },
      redis: null,
      state_file: { path: stateFile, saved_at: expect.stringMatching(TIME) },
      shadow_all: null,
      key_sets: [],
      backends: [],
      problems: [],
    })
    expect(json.store.slots).toBeGreaterThan(1000)
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
