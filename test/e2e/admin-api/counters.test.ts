import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../../support/admin/admin-client.ts'
import { POLICIES } from '../../support/admin/counted-policies.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const ALICE = { 'header:x-key': 'alice', 'ip:address': '203.0.113.9' }

describe('counters', () => {
  const clock = new ManualClock()
  const owner = thisSuite()
  let edge: Edge

  beforeAll(async () => {
    edge = await running({ bundle: bundle(1, ...POLICIES), clock, env: { ...ADMIN_ENV, EDGE_GRPC_PORT: '0' } }, owner)
  })

  const get = (policyId: string, rule: string, values: Readonly<Record<string, string>> = {}): Promise<AdminResponse> =>
    askAdmin(edge.adminPort, 'GET', `counters?${new URLSearchParams({ policy: policyId, rule, ...values })}`)
  const post = (body: unknown): Promise<AdminResponse> => askAdmin(edge.adminPort, 'POST', 'counters', { body })
  const counterOf = async (rule: string, values: Readonly<Record<string, string>>): Promise<unknown[]> =>
    (await get('api', rule, values)).json.counters.map(({ kind, level, limit, remaining, reset_s }: never) => [
      kind,
      level,
      limit,
      remaining,
      reset_s,
    ])

  test('of one rule and caller say what is left, and looking takes nothing', async () => {
    await edge.decideTimes(2, {
      uri: '/api',
      fields: [
        ['X-Key', 'alice'],
        ['X-Forwarded-For', '203.0.113.9'],
      ],
    })
    clock.advance(500)
    const alice = {
      policy: 'api',
      rule: 'per-key',
      mode: 'enforce',
      values: ALICE,
      counters: [{ kind: 'bucket', level: 2.25, limit: 4, remaining: 2, reset_s: 4 }],
      holds: null,
      override: null,
    }
    for (let i = 0; i < 5; i++) expect(await get('api', 'per-key', ALICE)).toMatchObject({ status: 200, json: alice })
    expect((await post({ policy: 'api', rule: 'per-key', values: ALICE })).json).toEqual((await get('api', 'per-key', ALICE)).json)
    expect((await get('trial', 'r', { 'header:X-KEY': 'alice' })).json).toMatchObject({
      mode: 'shadow',
      values: { 'header:x-key': 'alice' },
    })
  })

  test('that were never used are full', async () => {
    expect(await counterOf('per-key', { 'header:x-key': 'nobody', 'ip:address': '203.0.113.9' })).toEqual([['bucket', 4, 4, 4, 0]])
    expect(await counterOf('at-once', { 'header:x-held': 'nobody' })).toEqual([['in_flight', 3, 3, 3, 0]])
  })

  test('of every kind: windows in debt, minutes and days, money in hundredths, requests in flight', async () => {
    const fields = ['X-Hourly', 'X-LLM', 'X-Held', 'X-Money'].map((name) => [name, 'kinds'] as const)
    expect((await edge.decide({ uri: '/api', fields })).status).toBe(200)
    const untilHourS = Math.ceil((3_600_000 - (clock.wallMs() % 3_600_000)) / 1000)
    const untilDayS = Math.ceil((86_400_000 - (clock.wallMs() % 86_400_000)) / 1000)
    expect(await counterOf('hourly', { 'header:x-hourly': 'kinds' })).toEqual([['window', -2, 10, 0, untilHourS]])
    expect(await counterOf('tokens', { 'header:x-llm': 'kinds' })).toEqual([
      ['minute', 500, 600, 500, 10],
      ['day', 8900, 9000, 8900, untilDayS],
    ])
    expect(await counterOf('money', { 'header:x-money': 'kinds' })).toEqual([['budget', 950, 1000, 950, untilDayS]])
    expect((await get('api', 'at-once', { 'header:x-held': 'kinds' })).json).toMatchObject({ holds: 1, counters: [{ level: 2, limit: 3 }] })
  })

  test('of a rule without limit keys need no values, and one without a limit has no counters', async () => {
    expect((await get('api', 'everybody')).json).toMatchObject({ values: {}, counters: [{ kind: 'bucket', limit: 1000 }] })
    expect((await post({ policy: 'api', rule: 'everybody' })).status).toBe(200)
    expect((await get('api', 'bad')).json).toMatchObject({ counters: [], holds: null })
  })

  test('of addresses are found by any of their spellings', async () => {
    for (const address of ['2001:db8::1', '[2001:DB8:0:0::7]:443', '2001:db8:0:0::/64'])
      expect((await get('api', 'per-key', { ...ALICE, 'ip:address': address })).json.values['ip:address']).toBe('2001:db8:0:0::/64')
  })

  test('of the rate limit service are found by descriptors, empty ones too', async () => {
    const client = rateLimitService(edge.grpcPort)
    await shouldRateLimit(client, ['user=al', { entries: 'user=', hits: 2 }])
    expect((await get('calls', 'users', { 'descriptor:user': 'al' })).json.counters).toMatchObject([{ level: 4, limit: 5 }])
    expect((await get('calls', 'users', { 'descriptor:user': '' })).json.counters).toMatchObject([{ level: 3, limit: 5 }])
  })

  test('keyed by credentials are asked for in a body, and shown by their digest', async () => {
    await edge.decide({ uri: '/api', fields: [['Authorization', 'Bearer very-secret']] })
    const refused = await get('api', 'secret', { bearer: 'very-secret' })
    expect(refused).toMatchObject({ status: 400, json: { error: { code: 'bad_request' } } })
    expect(refused.json.error.message).toContain('POST counters')
    expect(refused.json.error.message).not.toContain('very-secret')
    expect((await get('api', 'secret')).json.error.message).toContain('POST counters')
    expect((await get('api', 'everybody', { 'cookie:sid': 'very-secret' })).json.error.message).toContain('POST counters')
    const { status, json } = await post({ policy: 'api', rule: 'secret', values: { bearer: 'very-secret' } })
    expect(status).toBe(200)
    expect(json).toMatchObject({ values: { bearer: expect.stringMatching(/^[0-9a-f]{16}$/) }, counters: [{ level: 2 }] })
    const byDigest = await post({ policy: 'api', rule: 'secret', values: json.values })
    expect([byDigest.status, byDigest.json.error]).toMatchObject([
      400,
      {
        code: 'wrong_values',
        message:
          'bearer: this may be a digest, and counters are found only by the credential itself; give the credential, or see the rejects and overrides of the digest: edge caller bearer=DIGEST, or POST callers',
      },
    ])
    // A credential that looks like a digest is known to be none once something is counted for it.
    await edge.decide({ uri: '/api', fields: [['Authorization', 'Bearer 0123456789abcdef']] })
    expect((await post({ policy: 'api', rule: 'secret', values: { bearer: '0123456789abcdef' } })).json.counters).toMatchObject([
      { level: 2 },
    ])
  })

  test.each([
    ['no policy', 'GET', 'counters?rule=r', 400, 'bad_request', 'policy: missing'],
    ['no rule', 'GET', 'counters?policy=api', 400, 'bad_request', 'rule: missing'],
    ['two policies', 'GET', 'counters?policy=api&policy=trial&rule=r', 400, 'bad_request', 'policy: is given more than once'],
    ['an unknown policy', 'GET', 'counters?policy=apy&rule=r', 404, 'unknown_policy', '"apy"'],
    ['an unknown rule', 'GET', 'counters?policy=api&rule=per%0Akey', 404, 'unknown_rule', '"per\\nkey"'],
    ['a missing value', 'GET', 'counters?policy=api&rule=per-key&header:x-key=a', 400, 'wrong_values', 'ip:address is missing'],
    ['an empty value', 'GET', 'counters?policy=trial&rule=r&header:x-key=', 400, 'wrong_values', 'header:x-key is empty'],
    ['a surplus value', 'GET', 'counters?policy=api&rule=everybody&header:x-key=a', 400, 'wrong_values', 'has no limit_keys'],
    ['a value twice', 'GET', 'counters?policy=trial&rule=r&header:x-key=a&header:X-Key=a', 400, 'wrong_values', 'more than once'],
    [
      'an address that is none',
      'GET',
      'counters?policy=api&rule=per-key&header:x-key=a&ip:address=1.2.3',
      400,
      'wrong_values',
      'is not an IP address',
    ],
  ])('%s is refused with a sentence', async (_what, method, path, status, code, message) => {
    const refused = await askAdmin(edge.adminPort, method, path)
    expect([refused.status, refused.json.error.code]).toEqual([status, code])
    expect(refused.json.error.message).toContain(message)
  })

  test.each([
    ['values that are a list', { policy: 'trial', rule: 'r', values: ['a'] }, 'wrong_values', 'values: expected an object'],
    ['a value that is a number', { policy: 'trial', rule: 'r', values: { 'header:x-key': 1 } }, 'wrong_values', 'must be a text'],
    ['a value that is an object', { policy: 'trial', rule: 'r', values: { 'header:x-key': {} } }, 'wrong_values', 'must be a text'],
    ['a policy that is a number', { policy: 1, rule: 'r' }, 'bad_request', 'policy: expected a text'],
    ['an unknown field', { policy: 'trial', rule: 'r', value: {} }, 'bad_request', 'unknown fields: "value"'],
  ])('%s is refused with a sentence', async (_what, body, code, message) => {
    const refused = await post(body)
    expect([refused.status, refused.json.error.code]).toEqual([400, code])
    expect(refused.json.error.message).toContain(message)
  })

  test('a thousand wrong keys get a short sentence, without values', async () => {
    const values = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`header:x-${i}`, 'personal']))
    const { json } = await post({ policy: 'trial', rule: 'r', values })
    expect(json.error.message).toContain('got 1000 values')
    expect(json.error.message.length).toBeLessThan(500)
    expect(json.error.message).not.toContain('personal')
  })
})

describeWithRedis('counters in Redis', () => {
  test('are reset there', async () => {
    const redis = await runningRedis()
    const [one, other] = await twoSharing(redis.url, { bundle: bundle(1, ...POLICIES), env: ADMIN_ENV })
    const fields = [['X-Held', 'x']] as const
    expect(await one.decideTimes(4, { uri: '/api', fields })).toEqual([200, 200, 200, 429])
    const body = { policy: 'api', rule: 'at-once', values: { 'header:x-held': 'x' }, reason: 'a test' }
    expect(await askAdmin(other.adminPort, 'POST', 'counters/reset', { body })).toMatchObject({ status: 200, json: { holds: 0 } })
    expect(await other.decideTimes(4, { uri: '/api', fields })).toEqual([200, 200, 200, 429])
  })
})
