import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, llmRule, policy, windowRule } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const BUNDLE = bundle(
  1,
  policy('api', {
    rules: [
      bucketRule('per-key', ['header:x-k'], 10),
      bucketRule('two-keys', ['header:x-k', 'ip:address'], 10),
      bucketRule('session', ['cookie:sid'], 10),
      windowRule('all', [], { limit: 10, period: '1d' }),
      llmRule('tokens', ['header:x-k'], { tokens_per_minute: 1000 }),
      blockRule('blocked', { 'header:x-k': ['nobody'] }),
    ],
  }),
  policy('grpc', { selector: { domain: 'grpc' }, rules: [bucketRule('calls', ['descriptor:user'], 10)] }),
)

/** An override of a caller that no other test has. */
let callers = 0
function anOverride(more: object = {}): Record<string, unknown> {
  const values = { 'header:x-k': `caller-${++callers}` }
  return { policy: 'api', rule: 'per-key', values, multiply: 2, until: '2h', reason: 'a test', ...more }
}

const REFUSED = [
  ['no reason', { reason: undefined }, 'missing_reason', 'reason'],
  ['a blank reason', { reason: '  ' }, 'missing_reason', 'reason'],
  ['a reason of two lines', { reason: 'a\nb' }, 'bad_request', 'reason'],
  ['a very long reason', { reason: 'x'.repeat(5000) }, 'bad_request', 'reason'],
  ['no until', { until: undefined }, 'bad_until', 'until'],
  ['until in the past', { until: '2020-01-01T00:00:00Z' }, 'bad_until', 'is in the past'],
  ['until now', { until: '0s' }, 'bad_until', 'is in the past'],
  ['until a number', { until: 3600 }, 'bad_until', 'got 3600'],
  ['until in another zone', { until: '2099-01-01T00:00:00+02:00' }, 'bad_until', 'in UTC'],
  ['until a day that does not exist', { until: '2027-02-30T00:00:00Z' }, 'bad_until', 'got "2027-02-30'],
  ['until words', { until: 'two hours' }, 'bad_until', '2h'],
  ['until a negative duration', { until: '-2h' }, 'bad_until', '-2h'],
  ['until far away', { until: '2999-01-01T00:00:00Z' }, 'bad_until', 'put permanent changes in the bundle'],
  ['no change', { multiply: undefined }, 'bad_request', 'exactly one of multiply, set, unlimited, block, shadow_all'],
  ['two changes', { block: true }, 'bad_request', 'got multiply, block'],
  ['a factor of 0', { multiply: 0 }, 'bad_request', 'above 0'],
  ['a factor as text', { multiply: '3' }, 'bad_request', 'multiply'],
  ['a huge factor', { multiply: 1e9 }, 'bad_request', '1000000'],
  ['unlimited: false', { multiply: undefined, unlimited: false }, 'bad_request', 'unlimited: expected true'],
  ['shadow_all for a rule', { multiply: undefined, shadow_all: true, all: true }, 'bad_request', 'leave policy, rule, values, all out'],
  ['limits that are a list', { multiply: undefined, set: [] }, 'bad_request', 'set'],
  ['no limits', { multiply: undefined, set: {} }, 'bad_request', 'set'],
  ['a limit that the rule does not have', { multiply: undefined, set: { period: '1h' } }, 'bad_request', 'period'],
  ['a limit that no bundle may have', { multiply: undefined, set: { burst: 0 } }, 'bad_request', 'burst'],
  ['a misspelt limit', { multiply: undefined, set: { brust: 9 } }, 'bad_request', 'did you mean "burst"'],
  ['a change that does not fit the rule', { rule: 'blocked', values: undefined, all: true }, 'bad_request', 'block'],
  ['an unknown field', { untill: '2h' }, 'bad_request', 'untill'],
  ['no policy', { policy: undefined }, 'bad_request', 'policy'],
  ['a policy that is no text', { policy: {} }, 'bad_request', 'policy'],
  ['an unknown policy', { policy: 'nope' }, 'unknown_policy', 'nope'],
  ['an unknown rule', { rule: 'nope' }, 'unknown_rule', 'nope'],
  ['no caller', { values: undefined }, 'wrong_values', 'Name one caller by header:x-k, or send "all": true for all callers'],
  [
    'no caller of a rule of two keys',
    { rule: 'two-keys', values: undefined },
    'wrong_values',
    'header:x-k, ip:address, or send "all": true',
  ],
  ['no caller of a rule without keys', { rule: 'all', values: undefined }, 'wrong_values', 'send "all": true'],
  ['an empty caller of a rule without keys', { rule: 'all', values: {} }, 'wrong_values', 'send "all": true'],
  ['a caller, and all', { all: true }, 'wrong_values', 'expected one of the two'],
  ['an empty caller, and all', { values: {}, all: true }, 'wrong_values', 'expected one of the two'],
  ['all: false', { values: undefined, all: false }, 'bad_request', 'all: expected true, got false'],
  ['all as text', { values: undefined, all: 'true' }, 'bad_request', 'all: expected true, got "true"'],
  ['cut_streams without a block', { cut_streams: true }, 'bad_request', 'cut_streams: expected only with block, got it with multiply'],
  ['cut_streams as text', { multiply: undefined, block: true, cut_streams: 'yes' }, 'bad_request', 'cut_streams: expected true or false'],
  [
    'cut_streams where there are no streams',
    { policy: 'grpc', rule: 'calls', values: undefined, all: true, multiply: undefined, block: true, cut_streams: true },
    'bad_request',
    'it ends no streams',
  ],
  [
    'cut_streams where no streams pass through',
    { multiply: undefined, block: true, cut_streams: true },
    'bad_request',
    'cut_streams (--cut-streams): no streams pass through this instance, because its EDGE_MODE is decision_service. Leave it out',
  ],
  ['no values where the rule has keys', { values: {} }, 'wrong_values', 'header:x-k is missing'],
  ['values: null', { values: null }, 'wrong_values', 'values'],
  ['values that no counter has', { values: { 'header:x-k': 'a', 'header:x-l': 'b' } }, 'wrong_values', 'header:x-l'],
  ['a value twice', { values: { 'header:x-k': 'a', 'header:X-K': 'b' } }, 'wrong_values', 'more than once'],
  ['a value that is no text', { values: { 'header:x-k': 5 } }, 'wrong_values', 'header:x-k'],
  ['an empty value', { values: { 'header:x-k': '' } }, 'wrong_values', 'header:x-k'],
  ['an address that is none', { rule: 'two-keys', values: { 'header:x-k': 'a', 'ip:address': 'b' } }, 'wrong_values', 'ip:address'],
  ['values that are too long', { values: { 'header:x-k': 'x'.repeat(5000) } }, 'bad_request', 'at most 4096 are allowed'],
  ['replace that is no text', { replace: 5 }, 'bad_request', 'replace'],
  ['replace of nothing', { replace: 'abc' }, 'unknown_override', 'leave replace out'],
] as const

describe('the admin API', () => {
  const suite = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV }, suite)
  })
  const create = (body: unknown, actor?: string): Promise<AdminResponse> =>
    askAdmin(edge.adminPort, 'POST', 'overrides', { body, ...(actor && { actor }) })
  const list = async (): Promise<Record<string, unknown>[]> => (await askAdmin(edge.adminPort, 'GET', 'overrides')).json.overrides
  const end = (id: string, query = '?reason=over'): Promise<AdminResponse> => askAdmin(edge.adminPort, 'DELETE', `overrides/${id}${query}`)

  test('returns an override as it was set, lists it, and ends it once', async () => {
    const body = anOverride()
    const { status, json } = await create(body, 'erika')
    expect(status).toBe(201)
    expect(json).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{12}$/),
      policy: 'api',
      rule: 'per-key',
      values: body.values,
      multiply: 2,
      until: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      reason: 'a test',
      actor: 'erika',
      created_at: expect.any(String),
      edited: null,
      durable: false,
      in_force: true,
      before: { effect: 'limits', limits: [{ kind: 'bucket', limit: 10, text: '1 request per second, burst 10' }] },
      after: { effect: 'limits', limits: [{ kind: 'bucket', limit: 20, text: '2 requests per second, burst 20' }] },
    })
    expect(Date.parse(json.until) - Date.parse(json.created_at)).toBe(2 * 3_600_000)
    expect(await list()).toContainEqual(json)
    expect(await end(json.id)).toMatchObject({ status: 204, json: undefined })
    expect(await list()).not.toContainEqual(json)
    expect(await end(json.id)).toMatchObject({ status: 404, json: { error: { code: 'unknown_override' } } })
  })

  test('shows one for all callers as it is sent, so that it can be sent again', async () => {
    const sent = { rule: 'per-key', values: undefined, all: true, multiply: 2 }
    const { status, json } = await create(anOverride(sent))
    expect([status, json]).toMatchObject([201, { values: null, all: true }])
    const { rule, values, all, multiply } = json
    const again = await create(anOverride({ rule, values, all, multiply, replace: json.id }))
    expect(again).toMatchObject({ status: 201, json: { values: null, all: true } })
    await end(again.json.id)
  })

  test('takes each kind of change', async () => {
    const [values, all] = [undefined, true]
    const kinds = [
      [
        { rule: 'per-key', values, all, set: { burst: 99 }, multiply: undefined },
        { set: { burst: 99 }, values: null },
      ],
      [
        { rule: 'all', values, all, unlimited: true, multiply: undefined },
        { unlimited: true, values: null },
      ],
      [
        { rule: 'tokens', values, all, block: true, multiply: undefined },
        { block: true, cut_streams: false },
      ],
      [
        { block: true, cut_streams: false, multiply: undefined },
        { block: true, cut_streams: false },
      ],
      [{ rule: 'blocked', values, all, unlimited: true, multiply: undefined }, { unlimited: true }],
      [{ rule: 'two-keys', values, all, multiply: 0.5 }, { multiply: 0.5 }],
    ] as const
    await Promise.all(
      kinds.map(async ([given, expected]) => {
        const { status, json } = await create(anOverride(given))
        expect([status, json]).toMatchObject([201, expected])
        await end(json.id)
      }),
    )
    const { status, json } = await create({ shadow_all: true, until: '1m', reason: 'all is rejected' })
    expect([status, json]).toMatchObject([201, { shadow_all: true, in_force: true }])
    expect(json).not.toHaveProperty('policy')
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json.shadow_all).toEqual(json)
    expect((await create({ shadow_all: true, until: '1m', reason: 'again' })).status).toBe(409)
    await end(json.id)
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json.shadow_all).toBeNull()
  })

  test('reads until as a time in UTC or as a duration from now', async () => {
    const inAnHour = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000).toISOString()
    const spellings = [inAnHour, inAnHour.replace('.000Z', 'Z'), inAnHour.replace('Z', '+00:00')]
    const times = await Promise.all(spellings.map((until) => create(anOverride({ until }))))
    expect(times.map(({ status, json }) => [status, json.until])).toEqual(times.map(() => [201, inAnHour]))
    const durations = await Promise.all(['90s', '30m', '7d'].map((until) => create(anOverride({ until }))))
    expect(durations.map(({ json }) => Date.parse(json.until) - Date.parse(json.created_at))).toEqual([90_000, 1_800_000, 604_800_000])
    // Other tests expect that no override ends by itself.
    await end(durations[0]!.json.id)
  })

  test('keeps an address as counters have it, and a credential as a digest', async () => {
    const address = await create(anOverride({ rule: 'two-keys', values: { 'ip:address': '2001:DB8::1', 'header:X-K': 'a' } }))
    expect(address.json.values).toEqual({ 'header:x-k': 'a', 'ip:address': '2001:db8:0:0::/64' })
    const credential = await create(anOverride({ rule: 'session', values: { 'cookie:sid': 'a-secret-session' } }))
    const digest = credential.json.values['cookie:sid']
    expect(digest).toMatch(/^[0-9a-f]{16}$/)
    const again = await create(anOverride({ rule: 'session', values: { 'cookie:sid': digest } }))
    expect(again).toMatchObject({ status: 409, json: { error: { message: expect.stringContaining(credential.json.id) } } })
    expect(JSON.stringify([await list(), edge.log])).not.toContain('a-secret-session')
  })

  test('lets one of two operators win, and tells the other who it was', async () => {
    const body = anOverride()
    const all = await Promise.all(Array.from({ length: 8 }, (_, i) => create({ ...body, multiply: i + 2 })))
    const won = all.filter(({ status }) => status === 201)
    expect(won.length).toBe(1)
    const { id } = won[0]!.json
    for (const { status, json } of all) {
      if (status !== 201)
        expect([status, json.error]).toMatchObject([409, { code: 'override_exists', message: expect.stringContaining(id) }])
    }
    expect((await list()).filter(({ values }) => JSON.stringify(values) === JSON.stringify(body.values))).toEqual([won[0]!.json])

    // Both replace the same one: again one wins.
    const both = await Promise.all([create({ ...body, replace: id }), create({ ...body, replace: id })])
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409])
    const next = both.find(({ status }) => status === 201)!.json
    expect((await create({ ...body, replace: id })).json.error).toMatchObject({ message: expect.stringContaining(next.id) })
    expect((await end(id)).status).toBe(404)
    // Two end it: one does.
    expect((await Promise.all([end(next.id), end(next.id)])).map(({ status }) => status).sort()).toEqual([204, 404])
    expect(await create({ ...body, replace: next.id })).toMatchObject({ status: 404, json: { error: { code: 'unknown_override' } } })
    expect((await create(body)).status).toBe(201)
  })

  test('logs every change with who, what and why, and never a value', async () => {
    const values = { 'header:x-k': 'personal-data' }
    const first = (await create(anOverride({ values, reason: 'ticket 1' }), 'erika')).json
    const second = (await create(anOverride({ values, reason: 'ticket 2', replace: first.id, until: '1s' }), 'max')).json
    const third = (await create(anOverride({ reason: 'ticket 3' }), 'erika')).json
    await end(third.id, '?reason=ticket%204')
    const common = { level: 30, policy: 'api', rule: 'per-key', for: 'one_caller' }
    expect(linesOf(edge, first.id)).toMatchObject([
      { event: 'override_set', ...common, actor: 'erika', reason: 'ticket 1', change: 'multiply 2', until: first.until },
      { event: 'override_ended', ...common, actor: 'max', reason: 'ticket 2', why: 'replaced' },
    ])
    expect(linesOf(edge, third.id)).toMatchObject([
      { event: 'override_set', ...common, reason: 'ticket 3' },
      { event: 'override_ended', ...common, actor: 'unknown', reason: 'ticket 4', why: 'ended' },
    ])
    await until(() => linesOf(edge, second.id).length === 2)
    expect(linesOf(edge, second.id)).toMatchObject([
      { event: 'override_set', ...common, actor: 'max', reason: 'ticket 2' },
      { event: 'override_ended', ...common, actor: 'max', reason: 'ticket 2', why: 'over' },
    ])
    expect((await list()).map(({ id }) => id)).not.toContain(second.id)
    expect(JSON.stringify(edge.log)).not.toContain('personal-data')
  })

  test('refuses what cannot be, says why, and changes nothing', async () => {
    const before = await list()
    for (const [what, more, code, words] of REFUSED) {
      const { status, json } = await create(anOverride(more))
      expect(json.error, what).toMatchObject({ code, message: expect.stringContaining(words) })
      expect(status, what).toBe(code.startsWith('unknown') ? 404 : 400)
    }
    expect(await list()).toEqual(before)
  })

  test('refuses to end what is not there, or without a reason', async () => {
    const { id } = (await create(anOverride())).json
    expect(await end(id, '')).toMatchObject({ status: 400, json: { error: { code: 'missing_reason' } } })
    expect(await end(id, '?reason=a&reason=b')).toMatchObject({ status: 400 })
    expect(await end(id, '?reason=a&why=b')).toMatchObject({ status: 400 })
    for (const other of ['nope', '%00', `${id}/`, id.toUpperCase().replace(/\d/g, 'A'), 'x'.repeat(5000)])
      expect((await end(other)).status).toBe(404)
    expect((await askAdmin(edge.adminPort, 'GET', 'overrides?policy=api')).status).toBe(400)
    expect((await askAdmin(edge.adminPort, 'DELETE', 'overrides?reason=a')).status).toBe(405)
    expect((await end(id)).status).toBe(204)
  })
})

function linesOf({ log }: Edge, id: string): Record<string, unknown>[] {
  return log.filter((line) => line.id === id)
}
