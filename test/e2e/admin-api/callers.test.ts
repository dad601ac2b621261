import { beforeAll, describe, expect, test } from 'vitest'
import type { CallersRequest } from '../../../src/admin/api/caller-types.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { callers, names } from '../../support/admin/callers.ts'
import { blockRule, bucketRule, bundle, concurrencyRule, matching, policy } from '../../support/bundles/bundles.ts'
import { sized } from '../../support/run/property-runs.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

const KEY = 'header:x-k'

const BUNDLE = bundle(
  7,
  policy('api', {
    selector: { pathPrefix: '/api' },
    rules: [
      bucketRule('per-key', [KEY], 4, HARDLY_ANY),
      bucketRule('per-key-and-ip', [KEY, 'ip:address'], 9, HARDLY_ANY),
      bucketRule('per-token', ['bearer'], 3, HARDLY_ANY),
      concurrencyRule('flight', [KEY], 5),
      bucketRule('everybody', [], 1000, HARDLY_ANY),
    ],
  }),
  policy('trial', { mode: 'shadow', rules: [bucketRule('per-key', [KEY], 2, HARDLY_ANY)] }),
  policy('other', {
    selector: { pathPrefix: '/other' },
    rules: [bucketRule('per-user', ['jwt:sub'], 2), bucketRule('per-ip', ['ip:address'], 2)],
  }),
)

describe('GET callers', () => {
  test('says how the active bundle knows callers, and which labels its rules read', async () => {
    const nobody = { mode: null, issuers: [], keys_from: null, labels: [] }
    const edge = await running({ env: ADMIN_ENV })
    const known = async (): Promise<unknown> => (await askAdmin(edge.adminPort, 'GET', 'callers')).json
    expect(await known()).toEqual({ bundle_version: null, ...nobody })
    await edge.publish(bundle(1, policy('plain', { rules: [bucketRule('per-key', [KEY], 4)] })))
    expect(await known()).toEqual({ bundle_version: '1', ...nobody })
    const rules = [
      bucketRule('team', ['caller:team', 'caller:id'], 4),
      matching({ 'caller:plan': ['free'] }, bucketRule('free', ['caller:team'], 2)),
    ]
    await edge.publish({
      ...bundle(2, policy('known', { rules })),
      callers: { mode: 'shadow', keys: { from: ['header:x-api-key', 'bearer'] } },
    })
    const read = { bundle_version: '2', mode: 'shadow', issuers: [], keys_from: ['header:x-api-key', 'bearer'], labels: ['plan', 'team'] }
    expect(await known()).toEqual(read)
  })
})

describe('POST callers', () => {
  const owner = thisSuite()
  const clock = new ManualClock()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock }, owner)
    await edge.decideTimes(4 + 2, { uri: '/api', fields: [['X-K', 'acme']] })
    clock.advance(30_000)
    await edge.decideTimes(1, { uri: '/api', fields: [['X-K', 'acme']] })
    await edge.decideTimes(3 + 1, { uri: '/api', fields: [['Authorization', 'Bearer hunter2']] })
  })

  test('by a key: what each rule has left, and since when the caller is rejected; nothing is taken', async () => {
    const found = await callers(edge, { values: { 'header:X-K': 'acme' } })
    expect(found.bundle_version).toBe('7')
    expect(names(found.rules)).toEqual(['api/per-key', 'api/flight', 'trial/per-key'])
    const [perKey, flight, trial] = found.rules
    expect(perKey).toEqual({
      policy: 'api',
      rule: 'per-key',
      mode: 'enforce',
      values: { [KEY]: 'acme' },
      algorithm: 'token_bucket',
      selector: { pathPrefix: '/api' },
      match_else: false,
      depends_on: [],
      unit: 'requests',
      counters: [{ kind: 'bucket', level: expect.closeTo(0, 1), limit: 4, remaining: 0, reset_s: expect.any(Number) }],
      by_digest: false,
      counted: true,
      holds: null,
      override: null,
    })
    expect(flight).toMatchObject({ counted: true, holds: 4 })
    expect(trial).toMatchObject({ mode: 'shadow', counted: true })
    expect(found.incomplete_rules).toMatchObject([
      { policy: 'api', rule: 'per-key-and-ip', values: { [KEY]: 'acme' }, missing: ['ip:address'] },
    ])
    expect(found.top).toMatchObject({
      rejected: [
        {
          policy: 'api',
          rule: 'per-key',
          values: { [KEY]: 'acme' },
          count: 3,
          first_at: '2026-01-15T12:00:00Z',
          last_at: '2026-01-15T12:00:30Z',
        },
      ],
    })
    expect(found).toMatchObject({ rules_left_out: 0, unused_keys: [], overrides: [] })
    expect(await callers(edge, { values: { [KEY]: 'acme' } })).toEqual(found)
  })

  test('by a value alone: every rule with one key is tried with it, where it can be one of its values', async () => {
    const found = await callers(edge, { value: 'acme' })
    expect([names(found.rules), found.rules_tried]).toEqual([['api/per-key', 'api/flight', 'trial/per-key'], 5])
    expect(names(found.top!.rejected)).toEqual(['api/per-key'])
    expect(found.rules).toEqual((await callers(edge, { values: { [KEY]: 'acme' } })).rules)
    // Rules with several keys need to be told which of them it is, and never repeat it.
    expect(found.incomplete_rules).toMatchObject([
      { rule: 'per-key-and-ip', values: {}, missing: [KEY, 'ip:address'], may_be: [KEY], depends_on: [] },
    ])
    expect(JSON.stringify(found.incomplete_rules)).not.toContain('acme')
    const { incomplete_rules: ofAddress } = await callers(edge, { value: '203.0.113.7' })
    expect(ofAddress).toMatchObject([{ rule: 'per-key-and-ip', missing: [KEY, 'ip:address'], may_be: [KEY, 'ip:address'] }])
    // An address may be the value of any of these keys, and a name cannot be an address.
    expect(await callers(edge, { value: '203.0.113.7' })).toMatchObject({ rules: [], rules_tried: 6 })
  })

  test('a credential is found by itself and by its digest, and is never returned', async () => {
    const [byKey, byValue] = [await callers(edge, { values: { bearer: 'hunter2' } }), await callers(edge, { value: 'hunter2' })]
    expect(byKey.rules).toMatchObject([{ rule: 'per-token', counted: true, values: { bearer: expect.stringMatching(/^[0-9a-f]{16}$/) } }])
    const { bearer: digest } = byKey.rules[0]!.values
    expect(byValue.rules).toEqual(byKey.rules)
    const byDigest = await callers(edge, { values: { bearer: digest! } })
    for (const { top } of [byKey, byValue, byDigest, await callers(edge, { value: digest! })])
      expect(top!.rejected).toMatchObject([{ policy: 'api', rule: 'per-token', values: { bearer: digest }, count: 1 }])
    expect(JSON.stringify([byKey, byValue, edge.log])).not.toContain('hunter2')
  })

  test('of a digest it is not known what is left, and what is shown is the digest itself', async () => {
    const { bearer: digest } = (await callers(edge, { values: { bearer: 'hunter2' } })).rules[0]!.values
    const found = [await callers(edge, { values: { bearer: digest! } }), await callers(edge, { value: digest! })]
    for (const { rules, counters_known: isKnown } of found) {
      expect(rules.filter(({ rule }) => rule === 'per-token')).toMatchObject([
        { values: { bearer: digest }, counters: null, by_digest: true, counted: false, override: null },
      ])
      expect(isKnown).toBe(true)
    }
    // What nobody has seen as a digest may be a credential that looks like one, and is not returned.
    const unseen = await callers(edge, { values: { bearer: '0123456789abcdef' } })
    expect(unseen.rules).toMatchObject([{ rule: 'per-token', counters: null, by_digest: true }])
    expect(JSON.stringify(unseen)).not.toContain('0123456789abcdef')
    // Once it is used as a credential, it is known to be one.
    await edge.decideTimes(1, { uri: '/api', fields: [['Authorization', 'Bearer fedcba9876543210']] })
    expect((await callers(edge, { values: { bearer: 'fedcba9876543210' } })).rules).toMatchObject([
      { rule: 'per-token', by_digest: false, counters: [{ remaining: 2 }] },
    ])
  })

  test('nothing is found for another caller, and a key that no rule has is named', async () => {
    const found = await callers(edge, { values: { 'header:x-kk': 'acme' } })
    expect(found).toMatchObject({ rules: [], incomplete_rules: [], unused_keys: ['header:x-kk'], top: { rejected: [], nearest: [] } })
    const misspelled = await callers(edge, { values: { [KEY]: 'acmee' } })
    expect(misspelled.rules.map(({ counted }) => counted)).toEqual([false, false, false])
    expect(misspelled.top).toMatchObject({ rejected: [], nearest: [] })
  })

  test('only the rules of one policy', async () => {
    const found = await callers(edge, { values: { [KEY]: 'acme' }, policy: 'trial' })
    expect([names(found.rules), names(found.top!.rejected), names(found.top!.nearest)]).toEqual([['trial/per-key'], [], ['trial/per-key']])
    expect(await askAdmin(edge.adminPort, 'POST', 'callers', { body: { value: 'acme', policy: 'z' } })).toMatchObject({
      status: 404,
      json: { error: { code: 'unknown_policy' } },
    })
  })

  test.each([
    [{}, 'wrong_values', 'expected either values, such as {"header:x-key":"alice"}, or one value alone, such as "alice"'],
    [{ value: 'a', values: { bearer: 'a' } }, 'wrong_values', 'expected either values'],
    [{ value: '' }, 'wrong_values', 'value: expected a text that is not empty'],
    [{ value: 'x'.repeat(20_000) }, 'wrong_values', 'value: expected at most 16384 characters'],
    [{ values: { bearer: 'x'.repeat(20_000) } }, 'wrong_values', 'values: "bearer" has more than 16384 characters'],
    [{ value: 7 }, 'wrong_values', 'value: expected a text that is not empty'],
    [{ values: {} }, 'wrong_values', 'values: expected 1 to 32 keys'],
    [{ values: ['a'] }, 'wrong_values', 'values: expected 1 to 32 keys'],
    [
      { values: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`header:h${i}`, 'a'])) },
      'wrong_values',
      'values: expected 1 to 32 keys',
    ],
    [
      { values: { 'x-k': 's3cret', 'header:a': '', 'header:A': 's3cret', 'ip:address': 's3cret', bearer: ['s3cret'] } },
      'wrong_values',
      'values: "x-k" is no descriptor key: did you mean "header:x-k"?; "header:a" is empty; "ip:address" is no IP address; "bearer" must be a text',
    ],
    [{ values: { 'header:a': 'x', 'header:A': 'x' } }, 'wrong_values', 'values: "header:a" comes more than once'],
    [{ value: 'a', polcy: 'p' }, 'bad_request', 'unknown fields: "polcy"; expected values, value, policy'],
    [{ value: 'a', policy: 1 }, 'bad_request', 'policy: expected the id of a policy, got 1'],
  ])('refuses %j with every problem and no value', async (body, code, message) => {
    const { status, json } = await askAdmin(edge.adminPort, 'POST', 'callers', { body })
    expect({ status, code: json.error.code }).toEqual({ status: 400, code })
    expect(json.error.message).toContain(message)
    expect(json.error.message).not.toContain('s3cret')
  })
})

test('overrides that concern the caller are listed: its own, those for all callers of its rules, and of all policies', async () => {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  const set = async (body: object) => {
    const { status, json } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { until: '1h', reason: 'test', ...body } })
    expect(status).toBe(201)
    return json.id
  }
  const own = await set({ policy: 'api', rule: 'per-key', values: { [KEY]: 'acme' }, block: true })
  const pair = await set({ policy: 'api', rule: 'per-key-and-ip', values: { [KEY]: 'acme', 'ip:address': '203.0.113.7' }, multiply: 2 })
  await set({ policy: 'api', rule: 'per-key', values: { [KEY]: 'bob' }, block: true })
  const shadow = await set({ shadow_all: true })
  const all = await set({ policy: 'trial', rule: 'per-key', all: true, multiply: 2 })
  await set({ policy: 'other', rule: 'per-ip', all: true, multiply: 2 })
  const token = await set({ policy: 'api', rule: 'per-token', values: { bearer: 'hunter2' }, unlimited: true })
  const ids = async (body: object) => (await callers(edge, body)).overrides.map(({ id }) => id).sort()
  expect(await ids({ values: { [KEY]: 'acme' } })).toEqual([own, pair, shadow, all].sort())
  expect(await ids({ value: 'acme' })).toEqual([own, pair, shadow, all].sort())
  expect(await ids({ values: { bearer: 'hunter2' } })).toEqual([shadow, token].sort())
  expect(await ids({ value: 'hunter2' })).toEqual([shadow, token, all].sort())
  expect(await ids({ values: { [KEY]: 'acme' }, policy: 'trial' })).toEqual([shadow, all].sort())
  expect((await callers(edge, { values: { [KEY]: 'acme' } })).rules[0]).toMatchObject({ rule: 'per-key', override: own })
  const [byToken] = (await callers(edge, { values: { bearer: 'hunter2' } })).rules
  expect((await callers(edge, { values: byToken!.values })).rules).toMatchObject([
    { by_digest: true, values: byToken!.values, override: token },
  ])
})

describe('a rule with a match', () => {
  test('is listed where the values do not exclude it, with the other keys that it depends on', async () => {
    const rules = [
      matching({ [KEY]: 'acme' }, bucketRule('acme', [KEY], 4)),
      matching({ [KEY]: 'ac*', 'header:x-plan': 'free' }, bucketRule('free', [KEY], 4)),
      matching('else', bucketRule('rest', [KEY], 4)),
      blockRule('banned', { [KEY]: ['mallory', 'eve'] }),
      blockRule('robots', { 'header:user-agent': '*' }),
    ]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
    const found = async (body: object) => (await callers(edge, body)).rules.map(({ rule, depends_on: also }) => [rule, ...also].join(' '))
    const byKey = (name: string) => found({ values: { [KEY]: name } })
    expect(await byKey('acme')).toEqual(['acme', 'free header:x-plan'])
    expect(await byKey('acorn')).toEqual(['free header:x-plan', 'rest header:x-plan header:user-agent'])
    expect(await byKey('bob')).toEqual(['rest header:user-agent'])
    expect(await byKey('eve')).toEqual(['banned'])
    // A value alone is tried with the same rules. A block has no counter, and it is known to cover the caller.
    for (const name of ['acme', 'acorn', 'bob', 'eve'])
      expect((await callers(edge, { value: name })).rules_tried).toBe((await byKey(name)).length)
    expect(await found({ value: 'eve' })).toEqual(['banned'])
    expect(await found({ values: { [KEY]: 'acorn', 'header:x-plan': 'free' } })).toEqual(['free'])
    expect(await found({ values: { 'header:user-agent': 'curl' } })).toEqual(['robots'])
  })
})

describe('a rule with match: else', () => {
  const found = async (edge: Edge, body: CallersRequest) => {
    const { rules, incomplete_rules: incomplete } = await callers(edge, body)
    return [...rules, ...incomplete].map(({ rule, match_else: isElse, depends_on: also }) =>
      [rule, ...(isElse ? ['else'] : []), ...also].join(' '),
    )
  }

  test('is listed where another match covers the caller but its rule lacks a key, as the engine decides', async () => {
    const rules = [matching({ [KEY]: '*' }, bucketRule('team', ['header:x-team'], 4)), blockRule('rest', 'else')]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
    expect((await edge.decide({ uri: '/', fields: [['X-K', 'acme']] })).status).toBe(403)
    expect(await found(edge, { values: { [KEY]: 'acme' } })).toEqual(['rest else header:x-team', 'team'])
    expect(await found(edge, { values: { [KEY]: 'acme', 'header:x-team': 't' } })).toEqual(['team'])
    expect(await found(edge, { values: { 'header:x-other': 'acme' } })).toEqual([])
  })

  test('is listed where the rule that matches is a block that has ended', async () => {
    const over = blockRule('over', { [KEY]: 'acme' }, { expires_at: '2020-01-01T00:00:00Z' })
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [over, blockRule('rest', 'else')] })), env: ADMIN_ENV })
    expect((await edge.decide({ uri: '/', fields: [['X-K', 'acme']] })).status).toBe(403)
    expect(await found(edge, { values: { [KEY]: 'acme' } })).toEqual(['rest else'])
    expect(await found(edge, { value: 'acme' })).toEqual(['rest else'])
  })
})

/** More than are looked at. */
const OTHERS = sized(800, 3000)

test('an else beside many rules is judged by all of them, and rules with several keys leave room for the others', async () => {
  const others = Array.from({ length: OTHERS }, (_, i) => matching({ [KEY]: `customer-${i}` }, bucketRule(`r${i}`, [KEY], 4)))
  const rules = [...others, matching('else', bucketRule('rest', [KEY], 4))]
  const pairs = Array.from({ length: 600 }, (_, i) => bucketRule(`pair${i}`, [KEY, 'header:x-team'], 4))
  const edge = await running({ bundle: bundle(1, policy('pairs', { rules: pairs }), policy('p', { rules })), env: ADMIN_ENV })
  for (const [value, rule] of [
    [`customer-${OTHERS - 1}`, `p/r${OTHERS - 1}`],
    ['nobody', 'p/rest'],
  ] as const) {
    const found = await callers(edge, { values: { [KEY]: value } })
    expect([names(found.rules), found.incomplete_rules.length, found.rules_left_out]).toEqual([[rule], 500, 100])
  }
})

test('no more than 500 rules are looked at, and the response says how many more there are', async () => {
  const rules = Array.from({ length: 510 }, (_, i) => bucketRule(`r${i}`, [KEY], 4))
  const edge = await running({
    bundle: bundle(1, policy('p', { rules }), policy('q', { rules: [bucketRule('r', [KEY], 4)] })),
    env: ADMIN_ENV,
  })
  const found = await callers(edge, { value: 'acme' })
  expect([found.rules_tried, found.rules_left_out]).toEqual([500, 11])
  const narrower = await callers(edge, { value: 'acme', policy: 'q' })
  expect([narrower.rules_tried, narrower.rules_left_out]).toEqual([1, 0])
})

test('of long values no more rules are listed than a response has room for', async () => {
  const keys = Array.from({ length: 4 }, (_, i) => `query:k${i}`)
  const rules = Array.from({ length: 200 }, (_, i) => bucketRule(`r${i}`, keys, 4))
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
  const found = await callers(edge, { values: Object.fromEntries(keys.map((key) => [key, '"'.repeat(7_000)])) })
  expect([found.rules_tried, found.rules_left_out]).toEqual([74, 126])
})

test('values are found as clients send them, and long ones by their beginning', async () => {
  const rules = [bucketRule('header', [KEY], 1, HARDLY_ANY), bucketRule('query', ['query:k'], 1, HARDLY_ANY)]
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
  const [zoe, long] = ['Zoë', 'x'.repeat(300)]
  for (const value of [zoe, long]) await edge.decideTimes(2, { uri: '/', fields: [['X-K', Buffer.from(value).toString('latin1')]] })
  await edge.decideTimes(2, { uri: `/?k=${encodeURIComponent(zoe)}`, fields: [] })
  const found = await callers(edge, { value: zoe })
  expect(found.rules.map(({ rule, counted }) => [rule, counted])).toEqual([
    ['header', true],
    ['query', true],
  ])
  expect(names(found.top!.rejected)).toEqual(['p/header', 'p/query'])
  expect(names((await callers(edge, { value: long })).top!.rejected)).toEqual(['p/header'])
  expect((await callers(edge, { value: 'x'.repeat(20) })).top!.rejected).toEqual([])
})

test('before the first bundle and with EDGE_TOP=off there is less to say', async () => {
  const [none, off] = [await running({ env: ADMIN_ENV }), await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })]
  expect(await callers(none, { value: 'acme' })).toMatchObject({ bundle_version: null, rules: [], overrides: [], top: { rejected: [] } })
  await off.decideTimes(1, { uri: '/api', fields: [['X-K', 'acme']] })
  const { rules, top } = await callers(off, { values: { [KEY]: 'acme' } })
  expect([rules[0]!.counted, top]).toEqual([true, null])
})
