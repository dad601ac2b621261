import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, jwt, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** Tiers by plan, a customer with a limit of its own, and everybody else, in one policy. */
const TIERS = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/v1', exceptPaths: ['/v1/health', '/v1/caf\u00e9/'] },
    rules: [
      unlimitedRule('staff', { 'jwt:plan': 'staff' }),
      matching({ 'jwt:org': 'acme' }, bucketRule('acme', ['jwt:sub'], 5)),
      matching({ 'jwt:plan': ['pro', 'team-*'] }, bucketRule('pro', ['jwt:sub'], 3)),
      matching('else', bucketRule('others', ['ip:address'], 1)),
    ],
  }),
)

const ASKS = [
  ['decision_service', async (tiers = TIERS) => asksOf(await running({ bundle: tiers, clock: new ManualClock() }))],
  [
    'reverse_proxy',
    async (tiers = TIERS) => proxiedBy(await proxying(await HttpBackend.start(), { bundle: tiers, clock: new ManualClock() })),
  ],
] as const

describe.each(ASKS)('in %s', (_, start) => {
  test('each caller has the limit of its tier', async () => {
    const { ask } = await start()
    const times = async (count: number, uri: string, fields: Fields) => {
      const statuses: number[] = []
      for (let i = 0; i < count; i++) statuses.push((await ask(uri, fields)).status)
      return statuses
    }
    expect(await times(4, '/v1/x', token({ plan: 'pro', sub: 'a' }))).toEqual([200, 200, 200, 429])
    expect(await times(4, '/v1/x', token({ plan: 'team-red', sub: 'b' }))).toEqual([200, 200, 200, 429])
    expect(await times(4, '/v1/x', token({ plan: 'pro', sub: 'c', org: 'acme' }))).toEqual([200, 200, 200, 429])
    expect(await times(6, '/v1/x', token({ sub: 'd', org: 'acme' }))).toEqual([200, 200, 200, 200, 200, 429])
    expect(await times(9, '/v1/x', token({ plan: 'staff' }))).toEqual(Array(9).fill(200))
    const client: Fields = [['X-Forwarded-For', '192.0.2.1']]
    expect(await times(2, '/v1/x', [...client, ...token({ plan: 'free', sub: 'e' })])).toEqual([200, 429])
    // A pro without the claim that it is limited by is somebody else, and so is who sends no token.
    expect(await times(1, '/v1/x', [...client, ...token({ plan: 'pro' })])).toEqual([429])
    expect(await times(1, '/v1/x', client)).toEqual([429])
    expect(await times(2, '/v1/x', [['X-Forwarded-For', '192.0.2.2']])).toEqual([200, 429])
  })

  test('networks of addresses are tiers too', async () => {
    const rules = [
      unlimitedRule('office', { 'ip:address': ['10.0.0.0/9', '2001:db8::/33'] }),
      blockRule('banned', { 'ip:address': '198.51.100.64/26' }),
      matching('else', bucketRule('others', ['ip:address'], 1)),
    ]
    const { ask } = await start(bundle(1, policy('api', { rules })))
    const twice = async (address: string) => {
      const fields: Fields = [['X-Forwarded-For', address]]
      return [(await ask('/v1/x', fields)).status, (await ask('/v1/x', fields)).status]
    }
    for (const address of ['10.0.0.1', '10.127.255.255', '::ffff:10.1.2.3', '2001:db8:7fff::1'])
      expect(await twice(address)).toEqual([200, 200])
    for (const address of ['10.128.0.0', '9.255.255.255', '2001:db8:8000::1', '198.51.100.63', '198.51.100.128'])
      expect(await twice(address)).toEqual([200, 429])
    expect(await twice('198.51.100.64')).toEqual([403, 403])
  })

  test('an exemption has no RateLimit fields, and a tier has its own', async () => {
    const { ask } = await start()
    const staff = await ask('/v1/x', token({ plan: 'staff' }))
    expect(Object.keys(staff.headers).filter((name) => name.startsWith('ratelimit'))).toEqual([])
    expect((await ask('/v1/x', token({ plan: 'pro', sub: 'a' }))).headers).toMatchObject({
      'ratelimit-limit': '3',
      'ratelimit-remaining': '2',
    })
  })

  test('excepted paths are not limited, in whatever spelling, and whole segments count', async () => {
    const { ask } = await start()
    const client: Fields = [['X-Forwarded-For', '192.0.2.1']]
    const limitOf = async (uri: string) => (await ask(uri, client)).headers['ratelimit-limit']
    for (const uri of [
      '/v1/health',
      '/v1/health/live?x=/v1/x',
      '/v1//%68ealth/',
      '/v1/health/./live',
      '/v1/caf%C3%A9',
      '/v1/caf%c3%a9/x',
    ]) {
      expect([uri, await limitOf(uri)]).toEqual([uri, undefined])
    }
    expect(await limitOf('/v1/healthy')).toBe('1')
    // Backends differ in what these mean: to some it is not the excepted path.
    for (const uri of [
      '//v1/health',
      '/v1/x/../health',
      '/v1/health/..%2fx',
      '/v1/health/%2E%2e;/x',
      '/v1/health/..\\x',
      '/v1/health/%252e%252e/x',
    ]) {
      expect([uri, await limitOf(uri)]).toEqual([uri, '1'])
    }
    expect(await limitOf('/v1/health?to=../x')).toBeUndefined()
    for (const uri of ['/v1/health/../x', '/v1/health%2Flive', '/v1', '/v1/Health']) expect([uri, await limitOf(uri)]).toEqual([uri, '1'])
  })

  test('a claim that decides the tier and comes in two tokens is refused', async () => {
    const { ask } = await start()
    const { status, headers } = await ask('/v1/x', [...token({ plan: 'pro', sub: 'a' }), ...token({ plan: 'staff', sub: 'a' })])
    expect([status, headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
  })

  test('each missing key of a match is counted once a request', async () => {
    const { ask, edge } = await start()
    await ask('/v1/x', [['X-Forwarded-For', '192.0.2.1']])
    for (const key of ['jwt:plan', 'jwt:org']) expect(await edge.metric(`edge_descriptor_missing_total{key="${key}"}`)).toBe(1)
    expect(await edge.metric('edge_descriptor_missing_total{key="jwt:sub"}')).toBe(0)
  })
})

function asksOf(edge: Edge) {
  return { edge, ask: (uri: string, fields: Fields) => edge.decide({ uri, fields }) }
}

function proxiedBy(edge: Edge) {
  return { edge, ask: (uri: string, fields: Fields) => edge.get(uri, fields) }
}

function token(payload: object): Fields {
  return [['Authorization', `Bearer ${jwt(payload)}`]]
}
