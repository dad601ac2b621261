import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

/** Specification: Endpoints; GET /livez and GET /readyz. */

const clock = new ManualClock()
let ready: Edge
let unready: Edge

beforeAll(async () => {
  ready = await Edge.start({ clock, bundle: bundle(41) })
  unready = await Edge.start({ clock })
})

afterAll(() => Promise.all([ready.stop(), unready.stop()]))

async function readiness(edge: Edge): Promise<Record<string, unknown>> {
  return JSON.parse((await edge.get('/readyz')).body)
}

describe('GET /livez', () => {
  test('[livez-1] it answers 200 with the text ok', async () => {
    const { status, headers, body } = await ready.get('/livez')
    expect([status, body]).toEqual([200, 'ok'])
    expect(headers['content-type']).toMatch(/^text\/plain/)
  })

  test('[livez-2] it does so without a bundle, and after a bundle was refused', async () => {
    const broken = await Edge.start({ bundle: '{"bundle_version": 1, "policies": [' })
    try {
      expect(broken.log.map(({ event }) => event)).toContain('bundle_refused')
      const answers = [await unready.get('/livez'), await broken.get('/livez')]
      expect(answers.map(({ status, body }) => [status, body])).toEqual([
        [200, 'ok'],
        [200, 'ok'],
      ])
    } finally {
      await broken.stop()
    }
  })
})

describe('GET /readyz', () => {
  test('[readyz-1] with a bundle it answers 200 and JSON with exactly the four members', async () => {
    const { status, headers, body } = await ready.get('/readyz')
    expect([status, headers['content-type']]).toEqual([200, 'application/json'])
    expect(Object.keys(JSON.parse(body)).sort()).toEqual(['last_config_update', 'policy_hash', 'policy_version', 'status'])
  })

  test('[readyz-2] status is ready', async () => {
    expect((await readiness(ready))['status']).toBe('ready')
  })

  test('[readyz-3] policy_version is the bundle_version, as a string', async () => {
    expect((await readiness(ready))['policy_version']).toBe('41')
  })

  test('[readyz-4] policy_hash is a string that names the content: the sha256 of the bytes', async () => {
    const bytes = await readFile(ready.bundlePath)
    expect((await readiness(ready))['policy_hash']).toBe(createHash('sha256').update(bytes).digest('hex'))
  })

  test('[readyz-5] last_config_update is the moment the bundle was applied, an integer timestamp', async () => {
    expect((await readiness(ready))['last_config_update']).toBe(Date.UTC(2026, 0, 15, 12) / 1000)
  })

  test('[readyz-6] last_config_update moves when a bundle is applied, and only then', async () => {
    const other = await Edge.start({ clock, bundle: bundle(1) })
    try {
      const before = (await readiness(other))['last_config_update'] as number
      clock.advance(90_500)
      expect((await readiness(other))['last_config_update']).toBe(before)
      await other.publish(bundle(2))
      expect((await readiness(other))['last_config_update']).toBe(Math.floor(clock.wallMs() / 1000))
      expect(Math.floor(clock.wallMs() / 1000)).toBeGreaterThan(before)
    } finally {
      await other.stop()
    }
  })

  test('[readyz-7] before the first bundle it answers 503 and JSON: not_ready, no_policy_loaded', async () => {
    const { status, headers, body } = await unready.get('/readyz')
    expect([status, headers['content-type']]).toEqual([503, 'application/json'])
    expect(JSON.parse(body)).toEqual({ status: 'not_ready', reason: 'no_policy_loaded' })
  })
})
