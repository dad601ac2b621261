import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const PER_KEY = bucketRule('per-key', ['header:x-k'], 10, 5)

async function bundleOf(port: number) {
  return (await askAdmin(port, 'GET', 'bundle')).json
}

describe('GET bundle', () => {
  // A large bundle, which a thread of its own compares: test/campaigns/bundle-changes.test.ts
  test('says the same at each of two workers', async () => {
    const edge = await servingOn(2, bundle(1, policy('a', { rules: [] }), policy('b', { rules: [] })), ADMIN_ENV)
    await replaceFile(edge.bundlePath, JSON.stringify(bundle(2, policy('b', { rules: [] }), policy('a', { rules: [PER_KEY] }))))
    await until(() => edge.logged('bundle_applied').length === 2)
    for (let i = 0; i < 4; i++) {
      const { changes } = await bundleOf(adminPortOf(edge))
      expect(changes).toMatchObject({ policies: { changed: 1, unchanged: 1 }, reordered: true, complete: true })
    }
  })
})
