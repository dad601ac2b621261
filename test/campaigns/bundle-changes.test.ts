import { expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../support/admin/admin-client.ts'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { until } from '../support/until.ts'
import { servingOn } from '../support/workers/workers.ts'

const POLICIES = 20_000

test('a large bundle is compared beside the workers, and of what it changes a part is listed', async () => {
  const many = (burst: number) =>
    Array.from({ length: POLICIES }, (_, i) => policy(`p${i}`, { rules: [bucketRule('r', ['header:x-k'], burst + i)] }))
  const edge = await servingOn(2, bundle(1, ...many(10)), ADMIN_ENV)
  const changes = async () => (await askAdmin(adminPortOf(edge), 'GET', 'bundle')).json.changes
  const applied = async (content: object, count: number) => {
    await replaceFile(edge.bundlePath, JSON.stringify(content))
    await until(() => edge.logged('bundle_applied').length === count)
  }
  await applied(bundle(2, policy('new', { rules: [] }), ...many(11).reverse()), 2)
  const { policies, reordered, complete, policy_changes } = await changes()
  expect([policies, reordered, complete]).toEqual([{ added: 1, removed: 0, changed: POLICIES, unchanged: 0 }, true, false])
  expect(policy_changes).toHaveLength(201)
  expect(policy_changes.at(-1)).toMatchObject({ kind: 'added', policy: 'new' })
  // A small one after a large one.
  await applied(bundle(3), 3)
  expect(await changes()).toMatchObject({ policies: { removed: POLICIES + 1 }, complete: false })
})
