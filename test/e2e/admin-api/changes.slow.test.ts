import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { change, changesOf } from '../../support/admin/changes.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'

const BUNDLE = bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 1, 0.001)] }))
const ALICE = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }

test('a flood of overrides does not push the bundles out', async () => {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  const reason = 'x'.repeat(1000)
  for (let i = 0; i < 220; i++) {
    const id = await change(edge, 'POST', 'overrides', { ...ALICE, multiply: 3, until: '2h', reason })
    await change(edge, 'DELETE', `overrides/${id}?reason=${reason}`)
  }
  const changes = await changesOf(edge, '?limit=500')
  expect(changes.length).toBeLessThan(440)
  expect(changes.at(-1)).toMatchObject({ change: 'bundle_applied', after: '1' })
})
