import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { loadOnAll, servingOn } from '../../support/workers/workers.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

const KEYED = bundle(
  1,
  policy('p', { selector: { pathPrefix: '/p' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('q', {
    selector: { pathPrefix: '/q' },
    rules: [bucketRule('r', ['header:x-k'], 2, HARDLY_ANY), bucketRule('wide', [], 100, HARDLY_ANY)],
  }),
)

describe('GET top of several workers', () => {
  test('adds up what all of them rejected, whichever is asked', async () => {
    const cli = await servingOn(2, KEYED, ADMIN_ENV)
    const load = await loadOnAll(cli.port, [...original('/p'), ['X-K', 'alice']], 8)
    await load.stop()
    const top = async () => (await askAdmin(adminPortOf(cli), 'GET', 'top')).json
    for (let i = 0; i < 6; i++) {
      let json = await top()
      // A worker that is busy for a second is left out.
      await until(async () => {
        json = await top()
        return json.complete
      })
      expect(json.rejected).toEqual([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, count: load.count(429) }])
      expect(json.nearest).toEqual([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, kind: 'bucket', remaining: 0, limit: 4 }])
    }
    expect(load.count(200)).toBe(4)
  })

  test('responds while one of them dies, with what the others know', async () => {
    const mortal = await mortalEdge(2, { bundle: KEYED, env: ADMIN_ENV })
    const load = await loadOnAll(mortal.port, [...original('/p'), ['X-K', 'alice']], 8)
    const asked = Promise.allSettled(Array.from({ length: 20 }, () => askAdmin(mortal.edge.adminPort, 'GET', 'top')))
    mortal.age()
    await mortal.host.terminate(2)
    const responses = (await asked).flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200))
    await mortal.untilReplaced()
    await load.stop()
    const { rejected, complete } = (await askAdmin(mortal.edge.adminPort, 'GET', 'top')).json
    expect(complete).toBe(false)
    expect(rejected).toMatchObject([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' } }])
    expect(rejected[0].count).toBeLessThanOrEqual(load.count(429) + load.errors.length)
  })
})
