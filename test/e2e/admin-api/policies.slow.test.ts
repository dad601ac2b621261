import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn } from '../../support/workers/workers.ts'

describe('GET policies', () => {
  test('sums over all workers', async () => {
    const edge = await servingOn(2, bundle(1, policy('p', { rules: [bucketRule('r', [], 5, 1e-6)] })), ADMIN_ENV)
    const crowd = await Crowd.gather(edge.port, adminPortOf(edge))
    const answers = await crowd.ask(decisionBytes(original('/')))
    const rejected = answers.filter(({ status }) => status === 429).length
    expect(rejected).toBe(crowd.size - 5)
    for (let i = 0; i < 4; i++) {
      const { json } = await askAdmin(adminPortOf(edge), 'GET', 'policies')
      expect(json.policies).toMatchObject([{ last_minute: { allowed: 5, rejected }, rules: [{ last_minute: { rejected } }] }])
    }
  })
})
