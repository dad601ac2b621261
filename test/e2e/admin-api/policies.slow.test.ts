import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn } from '../../support/workers/workers.ts'

const ONE_EACH = bucketRule('per-key', ['header:x-k'], 1, 1e-6)

const NOTHING = { rejected: 0, would_reject: 0 }

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

describe('GET policies', () => {
  test('shows patterns for credentials as digests, those that explain shows', async () => {
    const match = {
      'header:Authorization': ['Bearer secret', 'Bearer begin*'],
      'cookie:sid': 'hidden',
      bearer: '*',
      'header:x-plan': 'gold',
    }
    const banned = matching(match, blockRule('banned'))
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [banned] })), env: ADMIN_ENV })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'policies')
    expect(JSON.stringify(json)).not.toMatch(/secret|begin|hidden/)
    const headers = { authorization: 'Bearer secret', cookie: 'sid=hidden', 'x-plan': 'gold' }
    const explained = await askAdmin(edge.adminPort, 'POST', 'explain', { body: { method: 'GET', uri: '/', headers } })
    const { descriptors } = explained.json.policies[0].rules[0]
    const digests = Object.fromEntries(descriptors.map(({ key, value }: { key: string; value: string }) => [key, value]))
    expect(json.policies[0].rules[0].match).toEqual({
      'header:Authorization': [digests['header:authorization'], expect.stringMatching(/^[0-9a-f]{16}\*$/)],
      'cookie:sid': [digests['cookie:sid']],
      bearer: ['*'],
      'header:x-plan': 'gold',
    })
  })

  test('counts the would-rejects of policies in shadow mode and of their rules', async () => {
    const edge = await running({
      bundle: bundle(1, policy('trial', { mode: 'shadow', rules: [ONE_EACH, bucketRule('r', [], 2, 1e-6)] })),
      env: ADMIN_ENV,
      clock: new ManualClock(),
    })
    expect(await edge.decideTimes(4, { fields: [['X-K', 'alice']] })).toEqual([200, 200, 200, 200])
    const { json } = await askAdmin(edge.adminPort, 'GET', 'policies')
    expect(json.policies).toMatchObject([
      {
        last_minute: { allowed: 4, rejected: 0, would_reject: 3 },
        rules: [{ last_minute: { would_reject: 3 } }, { last_minute: NOTHING }],
      },
    ])
  })

  test('finds those with a text in their id, selector or rules, in pages too', async () => {
    const edge = await running({
      bundle: bundle(
        1,
        policy('Search', { selector: { pathPrefix: '/find', methods: ['PATCH'] }, rules: [] }),
        policy('trial', { mode: 'shadow', selector: { hosts: ['a.example.com'] }, rules: [bucketRule('per-key', ['header:x-key'], 5)] }),
        ...Array.from({ length: 30 }, (_, i) => policy(`tenant-${i}`, { rules: [] })),
      ),
      env: ADMIN_ENV,
    })
    const found = async (query: string) => {
      const { policies, next } = (await askAdmin(edge.adminPort, 'GET', `policies?${query}`)).json
      return [policies.map(({ id }: { id: string }) => id).join(), next]
    }
    for (const text of ['search', 'EARC', '/find', 'patch']) expect([text, await found(`search=${text}`)]).toEqual([text, ['Search', null]])
    for (const text of ['shadow', 'example.com', 'per-k', 'header:x-key', 'token_b'])
      expect([text, await found(`search=${text}`)]).toEqual([text, ['trial', null]])
    expect(await found('search=nothing')).toEqual(['', null])
    expect(await found('search=tenant-1&limit=2')).toEqual(['tenant-1,tenant-10', 'tenant-10'])
    expect(await found('search=tenant-1&limit=2&after=tenant-10')).toEqual(['tenant-11,tenant-12', 'tenant-12'])
    expect(await found('search=tenant-2&limit=1&after=tenant-28')).toEqual(['tenant-29', null])
    expect((await found('search='))[1]).toBeNull()
    expect(await found('policy=trial')).toEqual(['trial', null])
  })

  test('refuses pages that nobody can turn to', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [] })), env: ADMIN_ENV })
    const codeOf = async (query: string) => (await askAdmin(edge.adminPort, 'GET', `policies?${query}`)).json.error?.code
    for (const query of [
      'limit=0',
      'limit=1001',
      'limit=-1',
      'limit=1e2',
      'limit=',
      'limit=1&limit=2',
      'page=2',
      '__proto__=1',
      'policy=p&after=p',
      'policy=p&search=p',
      `search=${'x'.repeat(257)}`,
    ])
      expect([query, await codeOf(query)]).toEqual([query, 'bad_request'])
    for (const query of ['after=q', 'after=', 'after=__proto__', 'policy=q', 'policy='])
      expect([query, await codeOf(query)]).toEqual([query, 'unknown_policy'])
  })

  test('a page of large policies ends early', async () => {
    const hosts = Array.from({ length: 2000 }, (_, i) => `host-${i}.example.com`)
    const policies = Array.from({ length: 25 }, (_, i) => policy(`p${i}`, { selector: { hosts }, rules: [] }))
    const edge = await running({ bundle: bundle(1, ...policies), env: { ...ADMIN_ENV, EDGE_STORE_SIZE: '1m' } })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'policies')
    expect(json.policies.length).toBeLessThan(25)
    expect(json.next).toBe(json.policies.at(-1).id)
  })
})
