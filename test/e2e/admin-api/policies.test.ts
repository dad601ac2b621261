import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const ONE_EACH = bucketRule('per-key', ['header:x-k'], 1, 1e-6)
const NOTHING = { rejected: 0, would_reject: 0 }

describe('GET policies', () => {
  test('lists the policies of the active bundle as it has them, and what each decided lately', async () => {
    const selector = { pathPrefix: '/api', methods: ['GET'] }
    const vip = matching({ 'header:x-plan': ['gold', 'silver*'] }, { ...bucketRule('vip', ['header:x-k'], 100), wait_seconds: 5 })
    const edge = await running({
      bundle: bundle(
        '12',
        policy('api', { selector, rules: [ONE_EACH, vip] }),
        policy('trial', { mode: 'shadow', selector: { pathPrefix: '/api' }, rules: [ONE_EACH] }),
        policy('closed', { selector: { pathExact: '/closed' }, rules: [blockRule('all')] }),
        policy('calls', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:a'], 5)] }),
      ),
      env: { ...ADMIN_ENV, EDGE_GRPC_PORT: '0' },
      clock: new ManualClock(),
    })
    const alice = { uri: '/api/x', fields: [['X-K', 'alice']] } as const
    expect(await edge.decideTimes(3, alice)).toEqual([200, 429, 429])
    expect((await edge.decide({ uri: '/closed' })).status).toBe(403)
    const { status, json } = await askAdmin(edge.adminPort, 'GET', 'policies')
    expect(status).toBe(200)
    expect(json).toMatchObject({
      bundle_version: '12',
      next: null,
      policies: [
        {
          id: 'api',
          mode: 'enforce',
          selector,
          last_minute: { allowed: 1, rejected: 2, would_reject: 0 },
          rules: [
            { ...ONE_EACH, last_minute: { rejected: 2, would_reject: 0 } },
            { ...vip, last_minute: NOTHING },
          ],
        },
        {
          id: 'trial',
          mode: 'shadow',
          selector: { pathPrefix: '/api' },
          last_minute: { allowed: 1, rejected: 0, would_reject: 0 },
          rules: [{ ...ONE_EACH, last_minute: NOTHING }],
        },
        {
          id: 'closed',
          mode: 'enforce',
          selector: { pathExact: '/closed' },
          last_minute: { allowed: 0, rejected: 1, would_reject: 0 },
          rules: [{ ...blockRule('all'), limit_keys: [], last_minute: { rejected: 1, would_reject: 0 } }],
        },
        {
          id: 'calls',
          mode: 'enforce',
          selector: { domain: 'd' },
          last_minute: { allowed: 0, rejected: 0, would_reject: 0 },
          rules: [{ ...bucketRule('r', ['descriptor:a'], 5), last_minute: NOTHING }],
        },
      ],
    })
  })

  test('is empty before the first bundle, and follows the active one', async () => {
    const edge = await running({ env: ADMIN_ENV })
    expect((await askAdmin(edge.adminPort, 'GET', 'policies')).json).toEqual({ bundle_version: null, next: null, policies: [] })
    await edge.publish(bundle(3, policy('p', { rules: [] })))
    expect((await askAdmin(edge.adminPort, 'GET', 'policies')).json).toMatchObject({
      bundle_version: '3',
      policies: [{ id: 'p', rules: [] }],
    })
  })

  test('comes in pages, in the order of the bundle', async () => {
    const ids = Array.from({ length: 250 }, (_, i) => `p ${i}`)
    const edge = await running({ bundle: bundle(1, ...ids.map((id) => policy(id, { rules: [] }))), env: ADMIN_ENV })
    const page = async (query: string) => (await askAdmin(edge.adminPort, 'GET', `policies?${query}`)).json
    expect((await page('')).policies).toHaveLength(100)
    const seen: string[] = []
    for (let next: string | null = ''; next !== null; ) {
      const { policies, next: following } = await page(next === '' ? 'limit=99' : `limit=99&after=${encodeURIComponent(next)}`)
      seen.push(...policies.map(({ id }: { id: string }) => id))
      next = following
    }
    expect(seen).toEqual(ids)
    expect((await page('limit=1000')).policies).toHaveLength(250)
    expect(await page('after=p%20249')).toMatchObject({ policies: [], next: null })
  })
})
