import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, llmRule, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const HOUR_MS = 3_600_000
const HARDLY_ANY = 0.0001
const BUNDLE = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/api' },
    rules: [bucketRule('per-key', ['header:x-k'], 10, HARDLY_ANY), bucketRule('session', ['cookie:sid'], 10)],
  }),
  policy('words', {
    selector: { pathPrefix: '/words' },
    rules: [
      rateRule('rate', ['header:x-k'], { rate: '60/minute' }),
      windowRule('day', ['header:x-k'], { limit: 1000, period: '1d' }),
      llmRule('tokens', ['header:x-k'], { tokens_per_minute: 1000, tokens_per_day: 100_000 }),
    ],
  }),
)

let callers = 0
function aCaller(): Record<string, string> {
  return { 'header:x-k': `caller-${++callers}` }
}

describe('the admin API', () => {
  const suite = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV }, suite)
  })
  const common = { until: '2h', reason: 'a test' }
  const post = (path: string, body: object, actor = 'erika'): Promise<AdminResponse> =>
    askAdmin(edge.adminPort, 'POST', path, { body: { ...common, ...body }, actor })
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape that it expects
  const create = async (body: object): Promise<any> => {
    const { status, json } = await post('overrides', { policy: 'api', rule: 'per-key', multiply: 2, ...body })
    expect([status, json]).toEqual([201, json])
    return json
  }
  const edit = (id: string, body: object, actor = 'max'): Promise<AdminResponse> =>
    askAdmin(edge.adminPort, 'PATCH', `overrides/${id}`, { body: { reason: 'an edit', ...body }, actor })
  const list = async () => (await askAdmin(edge.adminPort, 'GET', 'overrides')).json.overrides
  const history = async () => (await askAdmin(edge.adminPort, 'GET', 'overrides/history')).json.overrides

  test('edits an override in place: its end, its change, or both', async () => {
    const made = await create({ values: aCaller() })
    const extended = await edit(made.id, { until: '5h' })
    expect(extended).toMatchObject({ status: 200, json: { ...made, until: expect.any(String), edited: expect.any(Object) } })
    const { until, edited } = extended.json
    expect(edited).toEqual({ actor: 'max', reason: 'an edit', at: expect.any(String) })
    expect(Date.parse(until) - Date.parse(edited.at)).toBe(5 * HOUR_MS)
    expect(await list()).toContainEqual(extended.json)

    const changed = (await edit(made.id, { set: { burst: 50 }, reason: 'more' }, 'ann')).json
    const { multiply: _, ...rest } = extended.json
    expect(changed).toEqual({
      ...rest,
      set: { burst: 50 },
      edited: { actor: 'ann', reason: 'more', at: expect.any(String) },
      after: { effect: 'limits', limits: [{ kind: 'bucket', limit: 50, text: expect.stringContaining('burst 50') }] },
    })
    const both = (await edit(made.id, { block: true, until: '1h' })).json
    expect(both).toMatchObject({
      id: made.id,
      block: true,
      cut_streams: false,
      created_at: made.created_at,
      actor: 'erika',
      reason: 'a test',
    })
    expect(await edge.decideTimes(1, { uri: '/api', fields: [['X-K', made.values['header:x-k']]] })).toEqual([403])
    expect((await askAdmin(edge.adminPort, 'DELETE', `overrides/${made.id}?reason=over`)).status).toBe(204)
  })

  test('adds nothing to what a caller has left when a raise is extended', async () => {
    const values = aCaller()
    const request = { uri: '/api', fields: [['X-K', values['header:x-k']!]] as const }
    await edge.decideTimes(10, request)
    const { id } = await create({ values, multiply: 3 })
    expect((await edge.decideTimes(21, request)).filter((status) => status === 200)).toHaveLength(20)
    await edit(id, { until: '9h' })
    expect(await edge.decideTimes(2, request)).toEqual([429, 429])
    await edit(id, { multiply: 4 })
    expect((await edge.decideTimes(11, request)).filter((status) => status === 200)).toHaveLength(10)
  })

  test('logs an edit with who and why, and what was before', async () => {
    const made = await create({ values: { 'header:x-k': 'personal-data' } })
    const { json } = await edit(made.id, { block: true, until: '9h' })
    await until(() => edge.logged('override_edited').some(({ id }) => id === made.id))
    expect(edge.log.filter(({ id }) => id === made.id)).toMatchObject([
      { event: 'override_set', actor: 'erika', reason: 'a test', change: 'multiply 2', until: made.until },
      {
        event: 'override_edited',
        level: 30,
        actor: 'max',
        reason: 'an edit',
        policy: 'api',
        rule: 'per-key',
        for: 'one_caller',
        change: 'block',
        until: json.until,
        change_before: 'multiply 2',
        until_before: made.until,
      },
    ])
    expect(JSON.stringify(edge.log)).not.toContain('personal-data')
  })

  test('refuses an edit that cannot be, says why, and changes nothing', async () => {
    const { id } = await create({ values: aCaller() })
    const { json: shadow } = await post('overrides', { shadow_all: true })
    const before = await list()
    const refused = [
      [id, { until: '5h', reason: undefined }, 'missing_reason', 'reason'],
      [id, {}, 'bad_request', 'nothing to edit: expected until, cut_streams, or one of multiply, set, unlimited, block'],
      [id, { until: '0s' }, 'bad_until', 'is in the past'],
      [id, { until: null }, 'bad_until', 'expected a time in UTC'],
      [id, { until: '9999d' }, 'bad_until', 'put permanent changes in the bundle'],
      [id, { multiply: 2, block: true }, 'bad_request', 'got multiply, block'],
      [id, { multiply: 0 }, 'bad_request', 'above 0'],
      [id, { set: { brust: 9 } }, 'bad_request', 'did you mean "burst"'],
      [id, { shadow_all: true }, 'bad_request', 'unknown fields: "shadow_all"'],
      [id, { values: { 'header:x-k': 'a' } }, 'bad_request', 'unknown fields: "values"'],
      [id, { cut_streams: true }, 'bad_request', 'this override does not block'],
      [id, { block: true, cut_streams: true }, 'bad_request', 'its EDGE_MODE is decision_service'],
      [id, { until: '5h', reason: 'x'.repeat(5000) }, 'bad_request', 'reason'],
      [id, { until: '5h', reason: '\u{1f600}'.repeat(500), set: { rate: 'x'.repeat(4000) } }, 'bad_request', 'set.rate'],
      [shadow.id, { block: true }, 'bad_request', 'end it to enforce again'],
      ['nope', { until: '5h' }, 'unknown_override', 'there is no override "nope"'],
    ] as const
    for (const [of, body, code, words] of refused) {
      for (const answer of [
        await edit(of, body),
        await post(`overrides/preview/${of}`, { until: undefined, ...{ reason: 'an edit' }, ...body }),
      ]) {
        expect(answer.json.error, words).toMatchObject({ code, message: expect.stringContaining(words) })
        expect(answer.status).toBe(code === 'unknown_override' ? 404 : 400)
      }
    }
    expect(await list()).toEqual(before)
    expect((await edit(shadow.id, { until: '5h' })).json).toMatchObject({ shadow_all: true, edited: { actor: 'max' } })
    await askAdmin(edge.adminPort, 'DELETE', `overrides/${shadow.id}?reason=over`)
  })

  test('lets one of two edits win, and tells the other', async () => {
    const { id } = await create({ values: aCaller() })
    const both = await Promise.all([edit(id, { multiply: 5 }), edit(id, { multiply: 6 })])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    const lost = both.find(({ status }) => status === 409)!
    expect(lost.json.error).toMatchObject({
      code: 'override_exists',
      message: expect.stringContaining('was changed by somebody else meanwhile'),
    })
  })

  test('remembers overrides that are over: what they did, and who ended them and why', async () => {
    const values = { 'cookie:sid': 'a-secret-session' }
    const first = await create({ rule: 'session', values })
    const edited = (await edit(first.id, { until: '9h' })).json
    const second = await create({ rule: 'session', values, block: true, multiply: undefined, replace: first.id, reason: 'ticket 2' })
    await askAdmin(edge.adminPort, 'DELETE', `overrides/${second.id}?reason=ticket+3`, { actor: 'ann' })
    const facts = ({ durable: _d, in_force: _i, before: _b, after: _a, ...rest }: Record<string, unknown>) => rest
    const at = expect.any(String)
    expect((await history()).slice(0, 3)).toEqual([
      { ...facts(second), ended: { at, why: 'ended', actor: 'ann', reason: 'ticket 3' } },
      { ...facts(edited), ended: { at, why: 'replaced', actor: 'erika', reason: 'ticket 2' } },
      { ...facts(first), ended: { at, why: 'edited', actor: 'max', reason: 'an edit' } },
    ])
    expect(JSON.stringify(await history())).not.toContain('a-secret-session')
    expect((await askAdmin(edge.adminPort, 'GET', 'overrides/history?limit=5')).status).toBe(400)
  })

  describe('previews an override: what it covers, and the limits before and after', () => {
    const rule = { policy: 'words', rule: 'rate', all: true }

    test.each([
      ['rate', { multiply: 2 }, [['bucket', 60, '60 requests per minute']], 'limits', [['bucket', 120, '120 requests per minute']]],
      [
        'rate',
        { set: { burst: 200 } },
        [['bucket', 60, '60 requests per minute']],
        'limits',
        [['bucket', 200, '60 requests per minute, burst 200']],
      ],
      ['day', { multiply: 3 }, [['window', 1000, '1,000 requests per day']], 'limits', [['window', 3000, '3,000 requests per day']]],
      ['day', { unlimited: true }, [['window', 1000, '1,000 requests per day']], 'no_limit', []],
      ['day', { block: true }, [['window', 1000, '1,000 requests per day']], 'blocks', []],
      [
        'tokens',
        { multiply: 0.5 },
        [
          ['minute', 1000, '1,000 tokens per minute'],
          ['day', 100_000, '100,000 tokens per day'],
        ],
        'limits',
        [
          ['minute', 500, '500 tokens per minute'],
          ['day', 50_000, '50,000 tokens per day'],
        ],
      ],
    ])('of rule %s, %j', async (name, change, before, effect, after) => {
      const limits = (rows: readonly (readonly unknown[])[]) => rows.map(([kind, limit, text]) => ({ kind, limit, text }))
      const { status, json } = await post('overrides/preview', { ...rule, rule: name, ...change })
      expect([status, json]).toEqual([
        200,
        {
          policy: 'words',
          rule: name,
          values: null,
          all: true,
          ...change,
          ...('block' in change && { cut_streams: false }),
          until: expect.any(String),
          replaces: null,
          covers: { callers: 'all', policies: 1, decided_last_minute: expect.any(Number) },
          before: { effect: 'limits', limits: limits(before) },
          after: { effect, limits: limits(after) },
        },
      ])
      expect((await list()).filter(({ policy }: { policy: string }) => policy === 'words')).toEqual([])
    })

    test('of a caller whom another override covers now', async () => {
      const all = await create({ ...rule, multiply: 2 })
      const one = { ...rule, all: undefined, values: { 'header:x-k': 'zoe' }, multiply: 4 }
      const bundled = { limits: [{ text: '60 requests per minute' }] }
      const doubled = { limits: [{ text: '120 requests per minute' }] }
      const fourfold = { limits: [{ text: '240 requests per minute' }] }
      expect((await post('overrides/preview', one)).json).toMatchObject({
        values: one.values,
        covers: { callers: 'one' },
        before: doubled,
        after: fourfold,
        replaces: null,
      })
      expect((await post('overrides/preview', { ...rule, multiply: 4 })).status).toBe(409)
      expect((await post('overrides/preview', { ...rule, multiply: 4, replace: all.id })).json).toMatchObject({
        before: doubled,
        after: fourfold,
        replaces: all.id,
      })
      const edited = await askAdmin(edge.adminPort, 'POST', `overrides/preview/${all.id}`, { body: { multiply: 4, reason: 'x' } })
      expect(edited).toMatchObject({ status: 200, json: { until: all.until, before: doubled, after: fourfold, replaces: all.id } })
      expect((await list()).find(({ id }: { id: string }) => id === all.id)).toEqual(all)
      await askAdmin(edge.adminPort, 'DELETE', `overrides/${all.id}?reason=over`)
      expect((await post('overrides/preview', one)).json).toMatchObject({ before: bundled })
    })

    test('of everything', async () => {
      const { json } = await post('overrides/preview', { shadow_all: true })
      expect(json).toMatchObject({ covers: { callers: 'all', policies: 2, decided_last_minute: null }, before: null, after: null })
      expect((await askAdmin(edge.adminPort, 'GET', 'status')).json.shadow_all).toBeNull()
    })

    test('and refuses what POST overrides would refuse', async () => {
      const refused = [
        [{ ...rule, all: undefined }, 400, 'wrong_values'],
        [{ ...rule, until: '0s' }, 400, 'bad_until'],
        [{ ...rule, reason: undefined }, 400, 'missing_reason'],
        [{ ...rule, rule: 'nope' }, 404, 'unknown_rule'],
        [{ ...rule, replace: 'nope' }, 404, 'unknown_override'],
      ] as const
      for (const [body, status, code] of refused)
        expect(await post('overrides/preview', { multiply: 2, ...body })).toMatchObject({ status, json: { error: { code } } })
    })
  })
})
