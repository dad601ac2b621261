import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const BUNDLE = bundle(7, policy('a', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('b', { rules: [] }))

describe('the problems in GET status', () => {
  test('of two workers are one', async () => {
    const edge = await servingOn(2, BUNDLE, { ...ADMIN_ENV, EDGE_REDIS_URL: 'redis://127.0.0.1:1' })
    const problems = async () => (await askAdmin(adminPortOf(edge), 'GET', 'status')).json.problems
    await until(() => edge.logged('redis_unavailable').length >= 2)
    await until(async () => (await problems()).length > 0)
    expect(await problems()).toMatchObject([{ code: 'redis_unavailable' }])
  })
})
