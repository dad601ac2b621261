import { describe, expect, test } from 'vitest'
import { logIn, SECRET_ENV } from '../../conformance/debug-login.ts'
import { blockRule, bucketRule, bundle, jwt, llmRule, policy } from '../../support/bundles/bundles.ts'
import { asking, askingWith, GRPC, isSame, statuses } from '../../support/grpc/asking-ext-authz.ts'
import { authorization, check, checkFailure } from '../../support/grpc/ext-authz.ts'
import { running } from '../../support/service/running.ts'

describe('an answer', () => {
  test('of an allowed request carries the RateLimit fields for the client, and nothing for the backend', async () => {
    const [client] = await asking([bucketRule('r', [], 3)])
    expect(await check(client)).toEqual({
      code: 0,
      status: 200,
      headers: { 'ratelimit-limit': '3', 'ratelimit-remaining': '2', 'ratelimit-reset': '1', ratelimit: '"p";r=2;t=1' },
      upstream: {},
      removed: [],
      body: '',
    })
  })

  test('of a rejected request is 429 with Retry-After, the reason and the RateLimit fields', async () => {
    const [client] = await asking([bucketRule('r', [], 1)])
    await check(client)
    expect(await check(client)).toEqual({
      code: 8,
      status: 429,
      headers: {
        'retry-after': '1',
        'x-edge-reason': 'token_bucket_exceeded',
        'ratelimit-limit': '1',
        'ratelimit-remaining': '0',
        'ratelimit-reset': '1',
        ratelimit: '"p";r=0;t=1',
      },
      upstream: {},
      removed: [],
      body: '',
    })
  })

  test('of a blocked request is 403', async () => {
    const [client] = await asking([blockRule('b')])
    const headers = { 'x-edge-reason': 'blocked', 'x-should-retry': 'false' }
    expect(await check(client)).toEqual({ code: 7, status: 403, headers, upstream: {}, removed: [], body: '' })
  })
})

describe('the request that is asked about', () => {
  test('is selected by method, path and host', async () => {
    const selector = { pathPrefix: '/api', methods: ['POST'], hosts: ['api.example.com'] }
    const [client] = await askingWith(bundle(1, policy('p', { selector, rules: [blockRule('b')] })))
    const asked = { method: 'POST', path: '/api/x?a=b', host: 'api.example.com:8443' }
    expect((await check(client, asked)).status).toBe(403)
    expect((await check(client, { ...asked, method: 'GET' })).status).toBe(200)
    expect((await check(client, { ...asked, path: '/apix' })).status).toBe(200)
    expect((await check(client, { ...asked, path: '/x/..//%61pi?' })).status).toBe(403)
    expect((await check(client, { ...asked, host: 'example.com' })).status).toBe(200)
    expect((await check(client, { method: 'POST', path: '/api', headers: { ':authority': 'API.example.com' } })).status).toBe(403)
    const { code, status, headers } = await check(client, { method: 'POST', path: '/api' })
    expect([code, status, headers]).toEqual([3, 400, { 'x-edge-reason': 'missing_original_host' }])
  })

  test('keys: query, cookie, path, bearer, claims and header', async () => {
    const keys = ['query:k', 'cookie:sid', 'path:2', 'bearer', 'jwt:sub', 'header:x-key']
    const [client] = await asking(keys.map((key, i) => bucketRule(`r${i}`, [key], 1)))
    const token = jwt({ sub: 'joe' })
    const request = { path: '/a/b?k=1', headers: { cookie: 'a=b; sid=7', authorization: `Bearer ${token}`, 'x-key': 'k' } }
    expect(await statuses(client, 2, request)).toEqual([200, 429])
    expect((await check(client, { path: '/a/c?k=2', headers: { 'x-key': 'l' } })).status).toBe(200)
    for (const [path, headers] of [
      ['/?k=1', {}],
      ['/', { cookie: 'sid=7' }],
      ['/x/b', {}],
      ['/', { authorization: `bearer  ${token}` }],
      ['/', { 'x-key': 'k' }],
    ] as const)
      expect((await check(client, { path, headers })).status).toBe(429)
  })
})

describe('a caller has one counter', () => {
  test.each([
    ['letters', 'caller'],
    ['bytes above 0x7f', 'd\xc3\xbcsseldorf \xff'],
  ])('over HTTP and over both ways that header fields come in: %s', async (_, value) => {
    const [client, edge] = await asking([bucketRule('r', ['header:x-key'], 2)])
    expect((await edge.decide({ fields: [['X-Key', value]] })).status).toBe(200)
    expect((await check(client, { fields: [['x-key', value]] })).status).toBe(200)
    expect((await check(client, { fields: [['X-Key', value]] })).status).toBe(429)
    expect((await edge.decide({ fields: [['X-Key', value]] })).status).toBe(429)
  })
})

describe('a field that a rule reads', () => {
  const REFUSED = { code: 3, status: 400, headers: { 'x-edge-reason': 'repeated_descriptor' }, upstream: {}, removed: [], body: '' }

  test('is refused in header_map when it comes twice, in any case, and nothing is taken', async () => {
    const [client] = await asking([bucketRule('all', [], 1), bucketRule('r', ['header:x-key'], 5)])
    const twice = [
      ['x-key', 'a'],
      ['X-KEY', 'a'],
    ] as const
    expect(await check(client, { fields: twice })).toEqual(REFUSED)
    expect((await check(client, { fields: [['x-key', 'a, b']] })).status).toBe(200)
  })

  test('is refused in headers when it may have come twice: its value has a comma', async () => {
    const [client] = await asking([bucketRule('r', ['header:x-key'], 5)])
    expect(await check(client, { headers: { 'x-key': 'a,b' } })).toEqual(REFUSED)
    expect((await check(client, { headers: { 'x-key': 'a', 'x-other': 'a,b' } })).status).toBe(200)
  })
})

describe('the client address', () => {
  test('is the same when the gateway has appended its peer already', async () => {
    const appended = { source: '192.0.2.1', headers: { 'x-forwarded-for': '203.0.113.9,192.0.2.1' } }
    expect(await isSame(appended, { source: '192.0.2.1' })).toBe(true)
  })
})

describe('a context extension', () => {
  test('is a key, with its own case and any characters', async () => {
    const [client] = await asking([bucketRule('r', ['context:Tiér'], 1)])
    expect(await statuses(client, 2, { context: { Tiér: 'gold' } })).toEqual([200, 429])
    expect((await check(client, { context: { Tiér: 'silver' } })).status).toBe(200)
    expect(await statuses(client, 2, { context: { tiér: 'gold' } })).toEqual([200, 200])
  })
})

describe('a budget of tokens', () => {
  const budget = [llmRule('budget', [], { tokens_per_day: 1000, max_completion_tokens: 100 })]

  test('reserves what hints say, where they count', async () => {
    const [client] = await asking(budget, { EDGE_GATEWAY_HINTS: 'on' })
    const headers = { 'x-edge-prompt-tokens': '50', 'x-edge-max-tokens': '7' }
    expect((await check(client, { path: '/v1/chat/completions', headers })).headers['ratelimit-remaining']).toBe('943')
  })

  test('is settled by a token, which goes to the backend and not to the client', async () => {
    const [client, edge] = await asking(budget)
    const { headers, upstream } = await check(client, { headers: { 'x-edge-settle': '1' } })
    expect(Object.keys(upstream)).toEqual(['x-edge-reservation'])
    expect(headers).not.toHaveProperty('x-edge-reservation')
    const body = JSON.stringify({ reservation: upstream['x-edge-reservation'], usage: { prompt_tokens: 10, completion_tokens: 20 } })
    const settled = await fetch(`http://127.0.0.1:${edge.port}/v1/settle`, { method: 'POST', body })
    expect(settled.status).toBe(204)
    expect((await check(client)).headers['ratelimit-remaining']).toBe('870')
  })
})

test('a debug session sees why', async () => {
  const [client, edge] = await asking([bucketRule('r', ['header:x-key'], 1)], SECRET_ENV)
  const cookie = (await logIn(edge)).pair
  const { headers } = await check(client, { headers: { cookie, 'x-key': 'dü' } })
  expect(headers).toMatchObject({
    'x-edge-debug-decision': 'allow',
    'x-edge-debug-policy': 'p',
    'x-edge-debug-descriptor-1-key': 'header:x-key',
    'x-edge-debug-descriptor-1-value': 'dÃ¼',
  })
  expect((await check(client, { headers: { cookie: `${cookie}x`, 'x-key': 'b' } })).headers).not.toHaveProperty('x-edge-debug-policy')
})

test('without a bundle the call fails with status 14, so that the gateway decides', async () => {
  const edge = await running({ env: GRPC })
  const client = authorization(edge.grpcPort)
  expect(await checkFailure(client)).toEqual({ code: 14, details: 'no_bundle_loaded' })
})

test('questions are counted by door and outcome', async () => {
  const [client, edge] = await asking([bucketRule('r', ['header:x-key'], 1)])
  for (const headers of [{ 'x-key': 'a' }, { 'x-key': 'a' }, { 'x-key': 'a,b' }]) await check(client, { headers })
  for (const outcome of ['allow', 'reject', 'refuse'])
    expect(await edge.metric(`edge_questions_total{door="ext_authz_grpc",outcome="${outcome}"}`)).toBe(1)
})
