import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, budgetRule, bundle, concurrencyRule, llmRule, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { askRaw, proxying, valuesOf } from '../../support/proxy/proxy.ts'
import { WIRES } from '../../support/proxy/routed.ts'
import { askThrough, DECISION, HTTP_DOORS } from '../../support/service/doors.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const ON = { EDGE_RATELIMIT_POLICY: 'on' }
const GET = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

describe('RateLimit-Policy', () => {
  test.each(HTTP_DOORS.map((door) => [door.path, door] as const))(
    'is on allowed and rejected responses of %s, if it is on',
    async (_, door) => {
      const rules = [bucketRule('r', [], 1, 0.3)]
      const bundled = bundle(1, policy('a "b"', { rules }))
      const edge = await running({ bundle: bundled, clock: new ManualClock(), env: ON })
      for (const status of [200, 429]) {
        const answer = await askThrough(door, edge.port)
        expect([answer.status, answer.headers['ratelimit-policy']]).toEqual([status, '"a \\"b\\"";q=1;w=4'])
      }
      const silent = await running({ bundle: bundled, clock: new ManualClock() })
      expect((await askThrough(door, silent.port)).headers).not.toHaveProperty('ratelimit-policy')
    },
  )

  test.each(WIRES)("is on responses of the proxy instead of the backend's, on %s", async (_, env) => {
    const backend = await HttpBackend.start((_req, res) => void res.writeHead(200, { 'RateLimit-Policy': '"theirs";q=7' }).end('ok'))
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 2)] })), env: { ...env, ...ON } })
    for (const status of [200, 200, 429]) {
      const answer = await askRaw(edge.port, GET)
      expect([answer.status, valuesOf(answer, 'ratelimit-policy')]).toEqual([status, ['"p";q=2;w=2']])
    }
  })

  test('is in answers over gRPC', async () => {
    const inDomain = policy('d', { selector: { domain: 'd' }, rules: [windowRule('w', ['descriptor:user'], { limit: 1, period: '1h' })] })
    const bundled = bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] }), inDomain)
    const edge = await running({ bundle: bundled, clock: new ManualClock(), env: { EDGE_GRPC_PORT: '0', ...ON } })
    const [authz, limits] = [authorization(edge.grpcPort), rateLimitService(edge.grpcPort)]
    for (const status of [200, 429]) {
      const answer = await check(authz)
      expect([answer.status, answer.headers['ratelimit-policy']]).toEqual([status, '"p";q=1;w=1'])
    }
    for (const overall of ['OK', 'OVER_LIMIT'])
      expect(await shouldRateLimit(limits, ['user=al'])).toMatchObject({ overall, headers: { 'ratelimit-policy': '"d";q=1;w=3600' } })
  })

  test.each<[string, object, string]>([
    ['a rate without burst', rateRule('r', [], { rate: '60/minute' }), ';q=60;w=60'],
    ['a rate that is no binary fraction', rateRule('r', [], { rate: '11/second' }), ';q=11;w=1'],
    ['a burst that refills slowly, rounded up', rateRule('r', [], { rate: '7/minute', burst: 10 }), ';q=10;w=86'],
    ['a window of minutes', windowRule('r', [], { limit: 9, period: '15m' }), ';q=9;w=900'],
    ['a day', windowRule('r', [], { limit: 9, period: '1d' }), ';q=9;w=86400'],
    ['a week', windowRule('r', [], { limit: 9, period: '1w' }), ';q=9;w=604800'],
    ['a month, which has no one length', windowRule('r', [], { limit: 9, period: '1mo' }), ';q=9'],
    ['requests in flight', concurrencyRule('r', [], 5), ';q=5'],
    ['money, in hundredths', budgetRule('r', [], { budget: 12.5, cost: { header: 'X-Cost', default: 0.5, max: 2 } }), ';q=1250;w=86400'],
    ['tokens', llmRule('r', [], { tokens_per_minute: 1000 }), ';q=1000;w=60'],
  ])('states %s', async (_, rule, expected) => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [rule] })), clock: new ManualClock(), env: ON })
    expect((await askThrough(DECISION, edge.port)).headers['ratelimit-policy']).toBe(`"p"${expected}`)
  })

  test('states the limit of an override while it is in force', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 2)] })), env: { ...ADMIN_ENV, ...ON } })
    const body = { policy: 'p', rule: 'r', all: true, multiply: 3, until: '2h', reason: 'a test' }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body })).status).toBe(201)
    await expect.poll(async () => (await askThrough(DECISION, edge.port)).headers['ratelimit-policy']).toBe('"p";q=6;w=2')
  })
})
