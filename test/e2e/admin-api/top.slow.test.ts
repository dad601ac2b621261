import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
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
})
