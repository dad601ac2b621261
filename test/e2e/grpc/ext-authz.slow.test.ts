import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { asking, askingWith, BY_ADDRESS, isSame, statuses } from '../../support/grpc/asking-ext-authz.ts'
import { check } from '../../support/grpc/ext-authz.ts'

describe('an answer', () => {
  test('that no rule applies to has no fields', async () => {
    const [client] = await asking([])
    expect(await check(client)).toEqual({ code: 0, status: 200, headers: {}, upstream: {}, removed: [], body: '' })
  })

  test('never shows a shadow policy', async () => {
    const [client, edge] = await askingWith(bundle(1, policy('s', { mode: 'shadow', rules: [bucketRule('r', [], 1), blockRule('b')] })))
    for (let i = 0; i < 3; i++) expect(await check(client)).toMatchObject({ code: 0, status: 200, headers: {} })
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="b",reason="blocked"}')).toBe(3)
  })
})

test('a rejected request takes nothing from the rules that would allow it', async () => {
  const [client] = await asking([bucketRule('all', [], 3), bucketRule('each', ['header:x-key'], 1)])
  expect(await statuses(client, 3, { headers: { 'x-key': 'a' } })).toEqual([200, 429, 429])
  const { headers } = await check(client, { headers: { 'x-key': 'b' } })
  expect(headers['ratelimit']).toBe('"p";r=0;t=1') // the scarcer: each
  expect(await statuses(client, 2)).toEqual([200, 429])
})

describe('the request that is asked about', () => {
  test.each([
    ['a method', { method: '' }, 'missing_original_method'],
    ['a path', { path: '' }, 'missing_original_uri'],
  ])('without %s is denied with 400, and takes nothing', async (_, request, reason) => {
    const [client] = await asking([bucketRule('r', [], 1)])
    expect(await check(client, request)).toEqual({
      code: 3,
      status: 400,
      headers: { 'x-edge-reason': reason },
      upstream: {},
      removed: [],
      body: '',
    })
    expect((await check(client)).status).toBe(200)
  })
})

describe('a caller has one counter', () => {
  test('in UTF-8 and with white space around it', async () => {
    const [client, edge] = await asking([bucketRule('r', ['header:x-key'], 2)])
    expect((await edge.decide({ fields: [['X-Key', 'd\xc3\xbc']] })).status).toBe(200)
    expect((await check(client, { headers: { 'x-key': 'dü' } })).status).toBe(200)
    expect((await check(client, { headers: { 'x-key': ' \tdü ' } })).status).toBe(429)
  })
})

describe('a field that a rule reads', () => {
  test.each(['user-agent', 'accept', 'accept-language', 'cookie', 'x-forwarded-for'])('may have commas in headers: %s', async (name) => {
    const [client] = await asking([bucketRule('r', [`header:${name}`], 1)])
    expect(await statuses(client, 2, { headers: { [name]: 'a,b' } })).toEqual([200, 429])
    expect((await check(client, { headers: { [name]: 'a,c' } })).status).toBe(200)
  })

  test('of a shadow policy is never refused', async () => {
    const [client] = await askingWith(bundle(1, policy('s', { mode: 'shadow', rules: [bucketRule('r', ['header:x-key'], 5)] })))
    expect((await check(client, { headers: { 'x-key': 'a,b' } })).status).toBe(200)
  })

  test('in several Cookie lines is read over all of them', async () => {
    const [client] = await asking([bucketRule('r', ['cookie:sid'], 1)])
    const lines = (...values: string[]) => ({ fields: values.map((value) => ['cookie', value] as const) })
    expect((await check(client, lines('a=b', 'sid=1'))).status).toBe(200)
    expect((await check(client, lines('sid=1', 'c=d'))).status).toBe(429)
    expect((await check(client, lines('sid=1', 'sid=2'))).status).toBe(400)
  })

  test('is read from header_map where both are there', async () => {
    const [client] = await asking([bucketRule('r', ['header:x-key'], 1)])
    expect((await check(client, { fields: [['x-key', 'a']] })).status).toBe(200)
    expect((await check(client, { fields: [['x-key', 'a']], headers: { 'x-key': 'b' } })).status).toBe(429)
  })
})

describe('the client address', () => {
  test('is that of the connection', async () => {
    expect(await isSame({ source: '192.0.2.1' }, { source: '192.0.2.1' })).toBe(true)
    expect(await isSame({ source: '192.0.2.1' }, { source: '192.0.2.2' })).toBe(false)
    expect(await isSame({ source: '::ffff:192.0.2.1' }, { source: '192.0.2.1' })).toBe(true)
    expect(await isSame({ source: '2001:db8::1' }, { source: '2001:db8::2' })).toBe(true)
    expect(await isSame({ source: '2001:db8::1' }, { source: '2001:db8:0:1::1' })).toBe(false)
  })

  test('is read from X-Forwarded-For only behind a trusted proxy', async () => {
    const forwarded = { headers: { 'x-forwarded-for': '203.0.113.9' } }
    expect(await isSame({ source: '10.0.0.1', ...forwarded }, { source: '203.0.113.9' })).toBe(true)
    expect(await isSame({ source: '192.0.2.1', ...forwarded }, { source: '192.0.2.1' })).toBe(true)
    expect(await isSame({ source: '192.0.2.1', ...forwarded }, { source: '203.0.113.9' })).toBe(false)
    const trusting = { EDGE_TRUSTED_PROXIES: '192.0.2.0/24' }
    expect(await isSame({ source: '192.0.2.1', ...forwarded }, { source: '203.0.113.9' }, trusting)).toBe(true)
  })

  test('over a pipe is that of X-Forwarded-For, as over HTTP', async () => {
    const pipe = { pipe: { path: '/run/envoy.sock' } }
    expect(await isSame({ source: pipe, headers: { 'x-forwarded-for': '203.0.113.9' } }, { source: '203.0.113.9' })).toBe(true)
    const [client, edge] = await asking(BY_ADDRESS)
    expect(await statuses(client, 2, { source: pipe })).toEqual([200, 200])
    expect(await edge.metric('edge_descriptor_missing_total{key="ip:address"}')).toBe(2)
  })

  test('does not change what header:x-forwarded-for reads', async () => {
    const [client] = await asking([bucketRule('r', ['header:x-forwarded-for'], 1)])
    const headers = { 'x-forwarded-for': '203.0.113.9' }
    expect((await check(client, { headers, source: '192.0.2.1' })).status).toBe(200)
    expect((await check(client, { headers, source: '192.0.2.2' })).status).toBe(429)
  })
})

describe('a context extension', () => {
  test('selects a rule by match', async () => {
    const [client] = await asking([blockRule('b', { 'context:tier': 'fr*' })])
    expect((await check(client, { context: { tier: 'free' } })).status).toBe(403)
    expect((await check(client, { context: { tier: 'paid' } })).status).toBe(200)
    expect((await check(client, { headers: { tier: 'free', 'context:tier': 'free' } })).status).toBe(200)
  })

  test('is missing over HTTP, and counted', async () => {
    const [, edge] = await asking([bucketRule('r', ['context:tier'], 1)])
    expect(await edge.decideTimes(2, { fields: [['tier', 'gold']] })).toEqual([200, 200])
    expect(await edge.metric('edge_descriptor_missing_total{key="context:tier"}')).toBe(2)
  })
})

describe('a budget of tokens', () => {
  const budget = [llmRule('budget', [], { tokens_per_day: 1000, max_completion_tokens: 100 })]

  test('reserves the most that a request may use', async () => {
    const [client] = await asking(budget)
    expect((await check(client)).headers['ratelimit-remaining']).toBe('900')
  })

  test('gets no token unless asked', async () => {
    const [client] = await asking(budget)
    expect((await check(client)).upstream).toEqual({})
  })
})
