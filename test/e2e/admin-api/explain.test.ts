import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { asksToExplain, explained } from '../../support/admin/explained.ts'
import {
  blockRule,
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  jwt,
  llmRule,
  matching,
  policy,
  unlimitedRule,
  windowRule,
} from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const HARDLY_ANY = 0.001

describe('explain in decision_service', () => {
  const clock = new ManualClock()
  const owner = thisSuite()
  let edge: Edge

  beforeAll(async () => {
    edge = await running({ bundle: bundle(1, ...POLICIES), clock, env: ADMIN_ENV }, owner)
  })

  test('says what a request would get, and of each rule whom it counts and what is left', async () => {
    const request = { uri: '/plain/x', headers: { 'X-Key': 'says' } }
    expect(await explained(edge.adminPort, request)).toMatchObject({
      action: 'allow',
      status: 200,
      reason: 'all_rules_passed',
      policy: 'plain',
      rule: 'per-key',
      headers: { 'RateLimit-Limit': '2', 'RateLimit-Remaining': '1', RateLimit: '"plain";r=1;t=1000' },
    })
    await edge.decideTimes(2, { uri: '/plain/x', fields: [['X-Key', 'says']] })
    const rejected = await explained(edge.adminPort, request)
    expect(rejected).toMatchObject({
      action: 'reject',
      status: 429,
      reason: 'token_bucket_exceeded',
      policy: 'plain',
      rule: 'per-key',
      headers: { 'Retry-After': '1000', 'X-Edge-Reason': 'token_bucket_exceeded', 'RateLimit-Remaining': '0' },
    })
    expect(rejected.policies.find(({ id }: { id: string }) => id === 'plain')).toEqual({
      id: 'plain',
      mode: 'enforce',
      matched: true,
      why: null,
      rules: [
        {
          name: 'per-key',
          applied: true,
          why: null,
          match_else: false,
          instead: null,
          cost: 1,
          descriptors: [{ key: 'header:x-key', value: 'says' }],
          counters: [{ kind: 'bucket', level: 0, limit: 2, remaining: 0, reset_s: 2000, wait_s: 1000 }],
          override: null,
        },
      ],
    })
  })

  test('names every policy in bundle order, and why one does not cover the request', async () => {
    const { policies } = await explained(edge.adminPort, { method: 'POST', uri: '/none/health', host: 'other.test' })
    expect(policies.map(({ id, matched, why, rules }: never) => [id, matched, why, rules])).toEqual([
      ['plain', false, 'path', []],
      ['method', false, 'method', []],
      ['hosts', false, 'path', []],
      ['host', false, 'host', []],
      ['except', false, 'except_path', []],
      ['calls', false, 'domain', []],
      ['rules', false, 'path', []],
      ['shadowed', false, 'path', []],
      ['kinds', false, 'path', []],
    ])
  })

  test('says why a rule does not apply', async () => {
    const request = { uri: '/rules', headers: { 'x-tier': 'gold', 'x-name': 'n', cookie: 'sid=1; sid=2' } }
    const { action, status, reason, policy: deciding, policies } = await explained(edge.adminPort, request)
    expect({ action, status, reason, deciding }).toEqual({ action: 'refuse', status: 400, reason: 'repeated_descriptor', deciding: null })
    const { rules } = policies.find(({ id }: { id: string }) => id === 'rules')
    expect(rules.map(({ name, applied, why }: never) => [name, applied, why])).toEqual([
      ['gold', true, null],
      ['silver', false, 'no_match'],
      ['others', false, 'no_match'],
      ['over', false, 'no_match'],
      ['missing', false, 'missing_descriptor'],
      ['repeated', false, 'repeated_descriptor'],
      ['free', true, null],
    ])
    expect(rules[4].descriptors).toEqual([
      { key: 'header:x-name', value: 'n' },
      { key: 'header:x-team', value: null },
    ])
  })

  test('tells a would-reject of a shadow policy, which changes no header', async () => {
    await edge.decide({ uri: '/shadowed' })
    const shadowed = await explained(edge.adminPort, { uri: '/shadowed' })
    expect(shadowed).toMatchObject({
      action: 'allow',
      status: 200,
      reason: 'quota_exceeded',
      policy: 'shadowed',
      rule: 'daily',
      headers: {},
    })
    const { mode, rules } = shadowed.policies.find(({ id }: { id: string }) => id === 'shadowed')
    expect(mode).toBe('shadow')
    expect(rules[0].counters).toEqual([{ kind: 'window', level: 0, limit: 1, remaining: 0, reset_s: 43_200, wait_s: 43_200 }])
  })

  test('knows every kind of counter, and costs that are no ones', async () => {
    const explanation = await explained(edge.adminPort, { uri: '/kinds', headers: { 'x-cost': '9' } })
    expect(explanation).toMatchObject({ action: 'reject', status: 429, rule: 'weighed', headers: { 'x-should-retry': 'false' } })
    const { rules } = explanation.policies.find(({ id }: { id: string }) => id === 'kinds')
    const shown = rules.map(({ name, cost, counters }: never) => [
      name,
      cost,
      (counters as { kind: string; limit: number; wait_s: number | null }[]).map(({ kind, limit, wait_s }) => [kind, limit, wait_s]),
    ])
    expect(shown).toEqual([
      ['weighed', 9, [['bucket', 4, null]]],
      ['window', 1, [['window', 100, 0]]],
      [
        'tokens',
        50,
        [
          ['minute', 600, 0],
          ['day', 9000, 0],
        ],
      ],
      ['in-flight', 1, [['in_flight', 3, 0]]],
      ['money', 50, [['budget', 1000, 0]]],
      ['blocked', 0, []],
    ])
  })

  test('a cost that the request states twice is not known', async () => {
    const { reason, policies } = await explained(edge.adminPort, { uri: '/kinds', headers: { 'x-cost': ['2', '3'] } })
    const { rules } = policies.find(({ id }: { id: string }) => id === 'kinds')
    expect([reason, rules[0].why, rules[0].cost, rules[1].cost]).toEqual(['repeated_descriptor', 'repeated_descriptor', null, 1])
  })

  test('shows credentials as digests, the same for the same value, and never in clear', async () => {
    const token = jwt({ sub: 'alice' })
    const headers = { authorization: `Bearer ${token}`, cookie: 'sid=secret-cookie', 'x-name': 'n', 'x-team': 't' }
    const text = JSON.stringify(await explained(edge.adminPort, { uri: '/rules', headers }))
    expect(text).not.toContain(token)
    expect(text).not.toContain('secret-cookie')
    const { policies } = JSON.parse(text)
    const { rules } = policies.find(({ id }: { id: string }) => id === 'rules')
    const [, bearer] = rules[5].descriptors
    expect(rules[5].descriptors).toEqual([
      { key: 'cookie:sid', value: expect.stringMatching(/^[0-9a-f]{16}$/) },
      { key: 'bearer', value: expect.stringMatching(/^[0-9a-f]{16}$/) },
      { key: 'jwt:sub', value: 'alice' },
    ])
    const again = await explained(edge.adminPort, { uri: '/rules', headers: { ...headers, cookie: 'sid=other' } })
    const others = again.policies.find(({ id }: { id: string }) => id === 'rules').rules[5].descriptors
    expect(others[1]).toEqual(bearer)
    expect(others[0]).not.toEqual(rules[5].descriptors[0])
  })

  test('reads names in any case, lists of lines and spaces around values as a gateway would send them', async () => {
    const alice = [{ key: 'header:x-key', value: 'alice' }]
    const explain = async (headers: Record<string, string | string[]>) =>
      (await explained(edge.adminPort, { uri: '/plain', headers })).policies[0].rules[0]
    expect((await explain({ 'X-KEY': ' alice\t' })).descriptors).toEqual(alice)
    expect((await explain({ 'x-key': ['alice'] })).descriptors).toEqual(alice)
    expect(await explain({ 'x-key': ['alice', 'bob'] })).toMatchObject({ applied: false, why: 'repeated_descriptor' })
    expect(await explain({ 'x-key': 'alice', 'X-Key': 'alice' })).toMatchObject({ applied: false, why: 'repeated_descriptor' })
    expect(await explain({ 'x-key': '' })).toMatchObject({ applied: false, why: 'missing_descriptor' })
  })

  test('refuses what would be refused: no host, no bundle', async () => {
    const request = { method: 'GET', uri: '/hosts', headers: {} }
    expect(await explained(edge.adminPort, request)).toMatchObject({
      action: 'refuse',
      status: 400,
      reason: 'missing_original_host',
      headers: { 'X-Edge-Reason': 'missing_original_host' },
    })
    for (const named of [{ host: 'HOST.test:8080' }, { headers: { Host: 'host.test' } }]) {
      const { action, policies } = await explained(edge.adminPort, { ...request, ...named })
      expect([action, policies[2].matched]).toEqual(['allow', true])
    }
    const empty = await running({ env: ADMIN_ENV })
    expect(await explained(empty.adminPort, request)).toEqual({
      action: 'refuse',
      status: 503,
      reason: 'no_bundle_loaded',
      policy: null,
      rule: null,
      headers: { 'X-Edge-Reason': 'no_bundle_loaded' },
      caller: null,
      policies: [],
    })
  })

  test('takes nothing, and is neither counted nor logged', async () => {
    const counters = async (): Promise<unknown> => [...(await metricsOf(edge.adminPort)).counters()].filter(isOfDecisions)
    const before = [await counters(), edge.log.length]
    for (let i = 0; i < 5; i++) {
      await explained(edge.adminPort, { uri: '/plain', headers: { 'x-key': 'never-seen' } })
      await explained(edge.adminPort, { uri: '/rules' })
      await explained(edge.adminPort, { uri: '/kinds' })
      await explained(edge.adminPort, { uri: '/shadowed' })
    }
    expect([await counters(), edge.log.length]).toEqual(before)
    expect(await edge.decideTimes(3, { uri: '/plain', fields: [['X-Key', 'never-seen']] })).toEqual([200, 200, 429])
  })

  test('counts hints of gateways where they count, and no body', async () => {
    const request = {
      method: 'POST',
      uri: '/kinds',
      headers: { 'x-edge-prompt-tokens': '100', 'x-edge-max-tokens': '7' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(4000) }], max_tokens: 3 }),
    }
    const costOf = async ({ adminPort }: Edge): Promise<number> =>
      (await explained(adminPort, request)).policies.find(({ id }: { id: string }) => id === 'kinds').rules[2].cost
    expect(await costOf(edge)).toBe(50)
    const hinted = await running({ bundle: bundle(1, ...POLICIES), env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' } })
    expect(await costOf(hinted)).toBe(107)
  })

  test.each([
    ['nothing', {}, 'method: missing'],
    ['no uri', { method: 'GET' }, 'uri: missing'],
    ['a number', { method: 1, uri: '/' }, 'method: expected a text'],
    ['an empty method', { method: '', uri: '/' }, 'method: expected a method'],
    ['a method with a space', { method: 'GET /', uri: '/' }, 'method: expected a method'],
    ['an empty uri', { method: 'GET', uri: '' }, 'uri: expected a path'],
    ['a uri with a line', { method: 'GET', uri: '/a\r\nX: y' }, 'uri: expected a path'],
    ['a uri with a space', { method: 'GET', uri: '/a b' }, 'uri: expected a path'],
    ['a host with a line', { method: 'GET', uri: '/', host: 'a\nb' }, 'host: expected the name'],
    ['a host twice', { method: 'GET', uri: '/', host: 'a', headers: { Host: 'b' } }, 'host: the host is given more than once'],
    ['a list of headers', { method: 'GET', uri: '/', headers: ['x-key: a'] }, 'headers: expected an object'],
    ['a name with a line', { method: 'GET', uri: '/', headers: { 'x\r\ny': 'a' } }, 'headers: "x\\r\\ny" is not the name'],
    ['an empty name', { method: 'GET', uri: '/', headers: { '': 'a' } }, 'headers: "" is not the name'],
    ['a value with a line', { method: 'GET', uri: '/', headers: { 'x-key': 'a\r\nb' } }, 'headers.x-key: expected no control'],
    ['a value beyond Latin-1', { method: 'GET', uri: '/', headers: { 'x-key': '☃' } }, 'headers.x-key: expected no control'],
    ['a number as a value', { method: 'GET', uri: '/', headers: { 'x-key': 1 } }, 'headers.x-key: expected a text or a list'],
    ['a list of lists', { method: 'GET', uri: '/', headers: { 'x-key': [['a']] } }, 'headers.x-key: expected a text or a list'],
    ['too many fields', { method: 'GET', uri: '/', headers: { a: Array(1001).fill('') } }, 'headers: expected at most 1000'],
    ['a body that is no text', { method: 'POST', uri: '/', body: { messages: [] } }, 'body: expected a text'],
    ['an unknown field', { method: 'GET', uri: '/', header: {} }, 'unknown fields: "header"'],
    ['deep nesting', `{"method":${'['.repeat(30_000)}${']'.repeat(30_000)},"uri":"/"}`, 'more than 16 levels'],
  ])('refuses %s, and names the field', async (_what, body, message) => {
    const { status, json } = await asksToExplain(edge.adminPort, body)
    expect([status, json.error.code]).toEqual([400, 'bad_request'])
    expect(json.error.message).toContain(message)
  })

  test('reads a long uri and 60 KiB of headers', async () => {
    const uri = `/plain/${'a/'.repeat(10_000)}?${'q'.repeat(10_000)}`
    const headers = { 'x-key': 'long', 'x-other': 'v'.repeat(30_000) }
    expect(await explained(edge.adminPort, { uri, headers })).toMatchObject({ action: 'allow', policy: 'plain' })
  })
})

describe('explain in reverse_proxy', () => {
  const owner = thisSuite()
  let edge: Edge

  beforeAll(async () => {
    const env = { ...ADMIN_ENV, ...proxyEnv('http://127.0.0.1:9/base'), EDGE_MAX_BODY_BYTES: '2000' }
    edge = await running({ bundle: bundle(1, ...PROXY_POLICIES), env, clock: new ManualClock() }, owner)
  })

  test('says of a request that only rules with wait_seconds reject that it would wait, and in decision_service that it would not', async () => {
    const rules = [
      { ...matching({ 'header:x-rule': 'bucket' }, bucketRule('bucket', [], 1, 0.5)), wait_seconds: 5 },
      { ...matching({ 'header:x-rule': 'window' }, windowRule('window', [], { limit: 1, period: '1mo' })), wait_seconds: 5 },
      { ...matching({ 'header:x-rule': 'flight' }, concurrencyRule('flight', [], 1)), wait_seconds: 0.5 },
    ]
    const waits = async (env: Record<string, string>): Promise<unknown[]> => {
      const service = await running({ bundle: bundle(1, policy('p', { rules })), env: { ...ADMIN_ENV, ...env }, clock: new ManualClock() })
      const told: unknown[] = []
      for (const rule of ['bucket', 'window', 'flight']) {
        const fields: [string, string][] = [['X-Rule', rule]]
        // In the proxy, nothing answers the requests that are sent on, so the one in flight stays in flight.
        if (env['EDGE_MODE'] === undefined) await service.decide({ fields })
        else void ask(service.port, 'GET', '/', fields).catch(() => {})
        const question = { uri: '/', host: 'a', headers: { 'x-rule': rule } }
        await until(async () => (await explained(service.adminPort, question)).action === 'reject')
        told.push((await explained(service.adminPort, question)).wait)
      }
      return told
    }
    const silent = await RawBackend.start(() => {})
    expect(await waits(proxyEnv(silent.url))).toEqual([{ seconds: 2, up_to_seconds: 5 }, undefined, { seconds: null, up_to_seconds: 0.5 }])
    expect(await waits({})).toEqual([undefined, undefined, undefined])
  })

  test('says what a stream would reserve, and how its reservation grows', async () => {
    const rules = [llmRule('day', [], { tokens_per_day: 50_000, reserve: {} })]
    const env = { ...ADMIN_ENV, ...proxyEnv('http://127.0.0.1:9') }
    const { adminPort } = await running({ bundle: bundle(1, policy('growing', { rules })), env, clock: new ManualClock() })
    const told = async (fields: object) => {
      const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400) }], max_tokens: 512_000, ...fields })
      const { policies } = await explained(adminPort, { method: 'POST', uri: '/v1/chat/completions', host: 'a', body })
      const { cost, grows_by: growsBy } = policies[0]!.rules[0]!
      return [cost, growsBy]
    }
    expect(await told({ stream: true })).toEqual([2100, 2000])
    expect(await told({ stream: true, max_tokens: 3000 })).toEqual([2100, 1000])
    expect(await told({ stream: true, max_tokens: 2000 })).toEqual([2100, undefined])
    expect(await told({})).toEqual([512_100, undefined])
  })

  test('says the same of money: the reservation in hundredths, its growth in completion tokens', async () => {
    const rules = [budgetRule('dollars', [], { budget: 100, prices: 'main', reserve: { first: 200, step: 100 } })]
    const env = { ...ADMIN_ENV, ...proxyEnv('http://127.0.0.1:9') }
    const text = { ...bundle(1, policy('growing', { rules })), prices: { main: { '*': { input: 10_000, output: 20_000 } } } }
    const { adminPort } = await running({ bundle: text, env, clock: new ManualClock() })
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400) }], max_tokens: 3000, stream: true })
    const { policies } = await explained(adminPort, { method: 'POST', uri: '/v1/chat/completions', host: 'a', body })
    expect(policies[0]!.rules[0]).toMatchObject({
      cost: 500,
      grows_by: 100,
      counters: [{ kind: 'budget', remaining: 10_000, reserved: 0 }],
    })
  })

  test('reads the body as the proxy does: its estimate, and its model', async () => {
    const body = JSON.stringify({ model: 'large', messages: [{ role: 'user', content: 'x'.repeat(400) }], max_tokens: 30 })
    const explanation = await explained(edge.adminPort, { method: 'POST', uri: '/v1/chat/completions', host: 'a', body })
    expect(explanation).toMatchObject({ action: 'allow', status: 200, rule: 'tokens', headers: { 'RateLimit-Remaining': '470' } })
    const [tokens, byModel] = explanation.policies[0].rules
    expect(tokens).toMatchObject({ applied: true, cost: 130, counters: [{ kind: 'minute', limit: 600, level: 600, wait_s: 0 }] })
    expect(byModel).toMatchObject({ applied: true, descriptors: [{ key: 'llm:model', value: 'large' }] })
  })

  test('gives a reject the fields of the proxy, and names what its head alone decides', async () => {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(400) }], max_tokens: 800 })
    expect(await explained(edge.adminPort, { method: 'POST', uri: '/v1/chat/completions', host: 'a', body })).toMatchObject({
      action: 'reject',
      status: 429,
      reason: 'tpm_exceeded',
      headers: { 'X-Edge-Reason': 'tpm_exceeded', 'x-should-retry': 'false', 'Content-Type': 'application/json' },
    })
    // The block is seen before the body: it is not even read.
    const blocked = { method: 'POST', uri: '/v1/chat/completions', host: 'a', headers: { 'x-bad': '1' }, body: '{"model":"a","model":"b"}' }
    expect(await explained(edge.adminPort, blocked)).toMatchObject({
      action: 'reject',
      status: 403,
      reason: 'blocked',
      policy: 'blocks',
      headers: { 'X-Edge-Reason': 'blocked', 'x-should-retry': 'false', 'Content-Type': 'application/json' },
    })
  })

  test('counts nothing where the head alone decides', async () => {
    const uri = '/v1/chat/completions'
    const spent = { method: 'POST', uri, host: 'a', headers: { 'x-once': 'a' }, body: '{"max_tokens":1}' }
    await ask(edge.port, 'POST', uri, [['X-Once', 'a']], spent.body)
    expect((await askAdmin(edge.adminPort, 'GET', 'top')).json.rejected).toEqual([])
    for (let i = 0; i < 3; i++) expect(await explained(edge.adminPort, spent)).toMatchObject({ status: 429, rule: 'once' })
    const blocked = { ...spent, headers: { 'x-bad': '1' } }
    for (let i = 0; i < 3; i++) expect(await explained(edge.adminPort, blocked)).toMatchObject({ status: 403 })
    expect((await askAdmin(edge.adminPort, 'GET', 'top')).json.rejected).toEqual([])
  })

  test.each([
    ['a body with its model twice', { body: '{"model":"a","model":"b"}' }, 400, 'repeated_descriptor'],
    ['a body that is too large', { body: JSON.stringify({ prompt: 'x'.repeat(3000) }) }, 413, 'body_too_large'],
    ['a body that does not match its coding', { headers: { 'content-encoding': 'gzip' }, body: '{}' }, 400, 'bad_request'],
    ['a host that is none', { host: 'a b' }, 400, 'bad_request'],
    ['a target that leaves the base path of the backend', { uri: '/v1/../../other' }, 400, 'bad_request'],
    ['two lengths', { headers: { 'content-length': ['1', '1'] }, body: '{}' }, 400, 'bad_request'],
  ])('refuses %s as the proxy does', async (_what, part, status, reason) => {
    const request = { method: 'POST', uri: '/v1/chat/completions', host: 'a', ...part }
    expect(await explained(edge.adminPort, request)).toMatchObject({
      action: 'refuse',
      status,
      reason,
      policy: null,
      headers: { 'X-Edge-Reason': reason, 'Content-Type': 'application/json' },
    })
  })

  test('does not know what a body costs that can be understood in more than one way', async () => {
    const request = {
      method: 'POST',
      uri: '/v1/chat/completions',
      host: 'a',
      body: '{"max_tokens":1,"max_tokens":2,"model":"a","model":"b"}',
    }
    const { rules } = (await explained(edge.adminPort, request)).policies[0]
    expect(rules.map(({ name, cost }: never) => [name, cost])).toEqual([
      ['tokens', null],
      ['by-model', 1],
      ['once', 1],
    ])
  })

  test('takes the client from X-Forwarded-For, and a field in another spelling for the same', async () => {
    const address = async (headers: Record<string, string>) =>
      (await explained(edge.adminPort, { uri: '/by-address', host: 'a', headers })).policies[1].rules[0]
    expect((await address({ 'x-forwarded-for': '203.0.113.9, 10.0.0.1' })).descriptors).toEqual([
      { key: 'ip:address', value: '203.0.113.9' },
    ])
    expect(await address({})).toMatchObject({ applied: false, why: 'missing_descriptor' })
    const { rules } = (await explained(edge.adminPort, { uri: '/', host: 'a', headers: { x_bad: '1' } })).policies[2]
    expect(rules[0].applied).toBe(true)
  })
})

const POLICIES = [
  policy('plain', { selector: { pathPrefix: '/plain' }, rules: [bucketRule('per-key', ['header:x-key'], 2, HARDLY_ANY)] }),
  policy('method', { selector: { methods: ['DELETE'] }, rules: [bucketRule('r', [], 9)] }),
  policy('hosts', { selector: { hosts: ['host.test'], pathPrefix: '/hosts' }, rules: [] }),
  policy('host', { selector: { hosts: ['host.test'], pathPrefix: '/none' }, rules: [] }),
  policy('except', { selector: { exceptPaths: ['/none/health'], methods: ['POST'], pathPrefix: '/none' }, rules: [] }),
  policy('calls', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 9)] }),
  policy('rules', {
    selector: { pathPrefix: '/rules' },
    rules: [
      matching({ 'header:x-tier': 'gold' }, bucketRule('gold', [], 9)),
      matching({ 'header:x-tier': 'silver' }, bucketRule('silver', [], 9)),
      matching('else', bucketRule('others', [], 9)),
      blockRule('over', undefined, { expires_at: '2020-01-01T00:00:00Z' }),
      bucketRule('missing', ['header:x-name', 'header:x-team'], 9),
      bucketRule('repeated', ['cookie:sid', 'bearer', 'jwt:sub'], 9),
      unlimitedRule('free', { 'header:x-name': 'n' }),
    ],
  }),
  policy('shadowed', {
    mode: 'shadow',
    selector: { pathPrefix: '/shadowed' },
    rules: [windowRule('daily', [], { limit: 1, period: '1d' })],
  }),
  policy('kinds', {
    selector: { pathPrefix: '/kinds' },
    rules: [
      { ...bucketRule('weighed', [], 4), algorithm_config: { tokens_per_second: 1, burst: 4, cost: { header: 'x-cost' } } },
      windowRule('window', [], { limit: 100, period: '1h', when_over: 'charge' }),
      llmRule('tokens', [], { tokens_per_minute: 600, tokens_per_day: 9000, max_completion_tokens: 50 }),
      concurrencyRule('in-flight', [], 3),
      budgetRule('money', [], { budget: 10, cost: { header: 'x-price', default: 0.5 } }),
      blockRule('blocked', { 'header:x-bad': '1' }),
    ],
  }),
]

const PROXY_POLICIES = [
  policy('llm', {
    selector: { pathPrefix: '/v1' },
    rules: [
      llmRule('tokens', [], { tokens_per_minute: 600 }),
      bucketRule('by-model', ['llm:model'], 100),
      bucketRule('once', ['header:x-once'], 1, HARDLY_ANY),
    ],
  }),
  policy('addresses', { selector: { pathPrefix: '/by-address' }, rules: [bucketRule('r', ['ip:address'], 2)] }),
  policy('blocks', { rules: [blockRule('bad', { 'header:x-bad': '1' })] }),
]

/** Series that a decision could change. */
function isOfDecisions([series]: readonly [string, number]): boolean {
  return series.startsWith('edge_') && !/^edge_(?:worker|admin|connections|state)/.test(series)
}
