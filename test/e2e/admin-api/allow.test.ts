import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'

test('a path of its own is not taken for an override with that id: Allow names the methods that it has', async () => {
  const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] })), env: ADMIN_ENV })
  const allowed = async (method: string, path: string): Promise<unknown[]> => {
    const { status, headers } = await ask(edge.adminPort, method, `/admin/v1/${path}`, [
      ['Authorization', `Bearer ${ADMIN_ENV.EDGE_ADMIN_TOKEN}`],
    ])
    return [status, headers.allow]
  }
  expect(await allowed('DELETE', 'overrides/history?reason=x')).toEqual([405, 'GET'])
  expect(await allowed('PATCH', 'overrides/preview')).toEqual([405, 'POST'])
  expect(await allowed('DELETE', 'overrides/preview/0123456789ab?reason=x')).toEqual([405, 'POST'])
  expect(await allowed('PUT', 'overrides/0123456789ab')).toEqual([405, 'PATCH, DELETE'])
})
