import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'

const limit = (burst: number) => [bucketRule('r', ['header:x-k'], burst, 1e-6)]

test('a policy has a share of the requests that it covered, and a trial takes none of them away', async () => {
  const edge = await running({
    bundle: bundle(
      1,
      policy('api', { selector: { pathPrefix: '/api' }, rules: limit(5) }),
      policy('api-trial', { mode: 'shadow', selector: { pathPrefix: '/api' }, rules: limit(2) }),
      policy('everything', { rules: limit(1000) }),
      policy('trial-alone', { mode: 'shadow', selector: { pathPrefix: '/other' }, rules: limit(1) }),
    ),
    env: ADMIN_ENV,
    clock: new ManualClock(),
  })
  const fields = [['X-K', 'ann']] as const
  expect(await edge.decideTimes(8, { uri: '/api', fields })).toEqual([200, 200, 200, 200, 200, 429, 429, 429])
  expect(await edge.decideTimes(3, { uri: '/other', fields })).toEqual([200, 200, 200])
  // A refused request is not decided.
  expect((await edge.decide({ uri: '/api', fields: [...fields, ...fields] })).status).toBe(400)

  const covered = (id: string) => metric(edge.adminPort, `edge_policy_requests_total{policy="${id}"}`)
  expect(await Promise.all(['api', 'api-trial', 'everything', 'trial-alone'].map(covered))).toEqual([8, 5, 11, 3])
  const allows = (id: string, reason: string, route: string) =>
    metric(edge.adminPort, `edge_decisions_total{action="allow",reason="${reason}",policy="${id}",route="${route}"}`)
  expect(await allows('api', 'all_rules_passed', '/api')).toBe(5)
  expect(await allows('everything', 'all_rules_passed', '/')).toBe(3)
  expect(await metric(edge.adminPort, 'edge_would_reject_total{policy="api-trial",rule="r",reason="token_bucket_exceeded"}')).toBe(3)

  const { policies } = (await askAdmin(edge.adminPort, 'GET', 'policies')).json
  expect(policies.map(({ id, last_minute }: { id: string; last_minute: object }) => [id, last_minute])).toEqual([
    ['api', { allowed: 5, rejected: 3, would_reject: 0 }],
    ['api-trial', { allowed: 5, rejected: 0, would_reject: 3 }],
    ['everything', { allowed: 11, rejected: 0, would_reject: 0 }],
    ['trial-alone', { allowed: 3, rejected: 0, would_reject: 2 }],
  ])
})
