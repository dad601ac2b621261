import { describe, expect, test } from 'vitest'
import { readCookie, SECRET, SECRET_ENV } from '../conformance/debug-login.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { original } from '../support/service/wire.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'

const BURST = 1_000_000
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], BURST, 0.0001)] }))
const ALICE = original('/', ['X-Caller', 'alice'])

describe('a worker that dies with every lock of the shared memory', () => {
  test('frees them, whatever it dies of', async () => {
    const mortal = await mortalEdge(2, { bundle: BUNDLE, env: SECRET_ENV })
    let deaths = 0
    for (const end of ['throw', 'exit', 'exhaust'] as const) {
      mortal.age()
      await mortal.host.end(1, end, true)
      await mortal.untilReplaced(++deaths)
      expect(mortal.events('worker_died').at(-1)!['freed_locks'], end).toBeGreaterThan(100)
      expect(await mortal.edge.decideTimes(10, { fields: [['X-Caller', 'alice']] })).toEqual(Array(10).fill(200))
      // Names of series and sessions that end are written under locks of their own.
      const cookie = readCookie(await ask(mortal.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])).pair
      expect((await ask(mortal.port, 'POST', '/v1/debug/logout', [['Cookie', cookie]])).status).toBe(204)
    }
    expect((await ask(mortal.port, 'POST', '/v1/decision')).status).toBe(400)
    expect((await metricsOf(mortal.port)).value('edge_refused_requests_total{reason="missing_original_method"}')).toBe(1)
    const { headers } = await mortal.edge.decide({ fields: [['X-Caller', 'alice']] })
    expect(headers['ratelimit-remaining']).toBe(String(BURST - 31))
  })

  test('keeps the others waiting only as long as it lives, and what was taken before stays taken', async () => {
    const mortal = await mortalEdge(2, { bundle: BUNDLE })
    expect(await mortal.edge.decideTimes(10, { fields: [['X-Caller', 'alice']] })).toEqual(Array(10).fill(200))
    await mortal.host.end(2, 'hang', true)
    const answers = Array.from({ length: 6 }, () => ask(mortal.port, 'POST', '/v1/decision', ALICE).catch(() => undefined))
    await mortal.host.terminate(2)
    await mortal.untilReplaced()

    const answered = (await Promise.all(answers)).filter((answer) => answer !== undefined)
    // Some may have come to the one that hung.
    expect(answered.map(({ status }) => status)).toEqual(Array(answered.length).fill(200))
    const { headers } = await mortal.edge.decide({ fields: [['X-Caller', 'alice']] })
    expect(headers['ratelimit-remaining']).toBe(String(BURST - 10 - answered.length - 1))
  })
})
