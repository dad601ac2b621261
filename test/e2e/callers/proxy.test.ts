import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../../support/callers/good-callers.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'

const RULES = bundle(
  1,
  policy('p', {
    rules: [
      bucketRule('team', ['caller:team'], 2, 1e-6),
      llmRule('tokens', ['caller:id'], { tokens_per_minute: 100_000 }),
      blockRule('block', { 'header:x-bad': '1' }),
    ],
  }),
)
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]

describe.each(PROXY_WIRES)('in the proxy, with the wire %s,', (wire) => {
  async function started(
    callers: object = { mode: 'enforce' },
    env: Record<string, string> = {},
  ): Promise<{ edge: Edge; backend: HttpBackend }> {
    const backend = await HttpBackend.start()
    const published = { ...RULES, callers: { ...CALLERS, ...callers } }
    const edge = await proxying(backend, {
      bundle: published,
      env: { EDGE_PROXY_WIRE: wire, ...env },
      callerReaderOf: () => new GoodCallers(),
    })
    return { edge, backend }
  }

  test('a request without a verified caller gets 401 as clients of LLM APIs understand it, and the backend nothing', async () => {
    const { edge, backend } = await started()
    const { status, headers, body } = await ask(edge.port, 'POST', '/v1/chat/completions', bearer('expired'), '{"max_tokens":5}')
    expect([status, headers['www-authenticate'], headers['x-edge-reason']]).toEqual([401, 'Bearer error="invalid_token"', 'unknown_caller'])
    expect(JSON.parse(body)).toEqual({ error: { message: expect.any(String), type: 'authentication_error', code: 'unknown_caller' } })
    const anthropic = await ask(edge.port, 'POST', '/v1/messages', [], '{}')
    expect(JSON.parse(anthropic.body)).toMatchObject({ type: 'error', error: { type: 'authentication_error' } })
    expect(anthropic.headers['www-authenticate']).toBe('Bearer')
    expect(backend.seen).toEqual([])
  })

  test.each([
    ['keys_unavailable', 'caller_keys_unavailable'],
    ['busy', 'caller_check_busy'],
  ])('the problem %s is the fault of the service: 503 %s', async (problem, reason) => {
    const { edge } = await started()
    const { status, headers, body } = await ask(edge.port, 'GET', '/', bearer(problem))
    expect([status, headers['retry-after'], headers['www-authenticate'], headers['x-edge-reason']]).toEqual([503, '1', undefined, reason])
    expect(JSON.parse(body)).toMatchObject({ error: { type: 'service_unavailable', code: reason } })
  })

  test('a verified caller is limited by its labels and forwarded with its token, also if its keys are waited for', async () => {
    const { edge, backend } = await started()
    const statuses: number[] = []
    for (const token of ['later:ada:blue', 'good:eve:blue', 'good:eve:blue', 'good:eve:red', 'signature']) {
      statuses.push((await ask(edge.port, 'POST', '/v1/chat/completions', bearer(token), '{"max_tokens":5}')).status)
    }
    expect(statuses).toEqual([200, 200, 429, 200, 401])
    expect(backend.seen.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer later:ada:blue',
      'Bearer good:eve:blue',
      'Bearer good:eve:red',
    ])
  })

  test('the field with an issued key is not forwarded, however it is spelled, and all others are', async () => {
    const { edge, backend } = await started()
    for (const name of ['X-Api-Key', 'x-api-key', 'X-API-KEY']) {
      await ask(edge.port, 'GET', '/', [
        ['X-Before', '1'],
        [name, `edge_secret${name}`],
        ['X-After', '2'],
      ])
    }
    await ask(edge.port, 'POST', '/v1/chat/completions', [['X-Api-Key', 'edge_other']], '{"max_tokens":5}')
    expect(backend.seen.length).toBe(4)
    expect(JSON.stringify(backend.seen.map(({ rawHeaders }) => rawHeaders))).not.toContain('edge_')
    expect(backend.seen[0]!.headers).toMatchObject({ 'x-before': '1', 'x-after': '2' })
    expect(backend.seen[0]!.headers).not.toHaveProperty('x-api-key')
  })

  test('without a mode, a key that was never issued is forwarded, and one that was revoked is not', async () => {
    const { edge, backend } = await started({})
    expect((await ask(edge.port, 'GET', '/', [['X-Api-Key', 'sk-other']])).status).toBe(200)
    expect(backend.seen[0]!.headers['x-api-key']).toBe('sk-other')
    expect((await ask(edge.port, 'GET', '/', [['X-Api-Key', 'edge_revoked']])).status).toBe(200)
    expect(backend.seen[1]!.headers).not.toHaveProperty('x-api-key')
  })

  test('a refused upload is not read: a small one leaves the connection open, a large one closes it', async () => {
    const { edge, backend } = await started()
    const client = RawClient.connect(edge.port)
    client.send('POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n{"a":')
    expect((await client.next()).status).toBe(401)
    client.send('GET /v1/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good:ada:green\r\n\r\n')
    expect((await client.next()).status).toBe(200)
    const large = RawClient.connect(edge.port)
    large.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nx')
    await large.sees('\r\n\r\n')
    expect(statusesIn(large.received)).toEqual([401])
    expect(large.received).toMatch(/^Connection: close\r$/im)
    const waiting = RawClient.connect(edge.port)
    waiting.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n')
    await waiting.sees('unknown_caller')
    expect(statusesIn(waiting.received)).toEqual([401])
    expect(backend.seen.length).toBe(1)
  })

  test('a preflight reaches the backend if the bundle excepts them, and nothing that could be taken for another request does', async () => {
    const { edge, backend } = await started({ mode: 'enforce', except_preflights: true })
    const preflight: Fields = [
      ['Origin', 'https://app.test'],
      ['Access-Control-Request-Method', 'POST'],
      ['Access-Control-Request-Headers', 'authorization'],
    ]
    const statuses = [(await ask(edge.port, 'OPTIONS', '/v1/chat/completions', preflight)).status]
    for (const more of [
      [['X-HTTP-Method-Override', 'POST']],
      [['X_Http_Method_Override', 'POST']],
      bearer('expired'),
      [['Origin', 'https://b.test']],
    ] as Fields[])
      statuses.push((await ask(edge.port, 'OPTIONS', '/v1/chat/completions', [...preflight, ...more])).status)
    statuses.push((await ask(edge.port, 'OPTIONS', '/v1/chat/completions', preflight, '{}')).status)
    statuses.push((await ask(edge.port, 'OPTIONS', '/v1/chat/completions', [])).status)
    expect(statuses).toEqual([200, 401, 401, 401, 401, 401, 401])
    expect(backend.seen.length).toBe(1)
  })

  test('an excepted path is none with a field by which the backend may take another one', async () => {
    const { edge, backend } = await started({ mode: 'enforce', except_paths: ['/health'] })
    const fields: Fields = [
      ['X-Original-URL', '/v1/chat'],
      ['X_Original.URL', '/v1/chat'],
      ['X-Rewrite-URL', '/v1/chat'],
      ['X-Forwarded-Uri', '/v1/chat'],
      ['X_Forwarded_Prefix', '/v1'],
      ['X-HTTP-Method-Override', 'DELETE'],
    ]
    for (const field of fields) expect([field, (await ask(edge.port, 'GET', '/health', [field])).status]).toEqual([field, 401])
    expect(backend.seen).toEqual([])
    expect((await ask(edge.port, 'GET', '/health', [['X-Original-URL', '/health']])).status).toBe(200)
  })

  test('what an untrusted peer says in X-Forwarded-* does not reach the backend, and ends no exception', async () => {
    const { edge, backend } = await started({ mode: 'enforce', except_paths: ['/health'] }, { EDGE_TRUSTED_PROXIES: '192.0.2.1' })
    expect((await ask(edge.port, 'GET', '/health', [['X-Forwarded-Uri', '/v1/chat']])).status).toBe(200)
    expect(backend.seen[0]!.headers).not.toHaveProperty('x-forwarded-uri')
  })

  test('a block comes before 401, and 401 before the limit', async () => {
    const { edge } = await started()
    const reasons: unknown[] = []
    for (const fields of [[['X-Bad', '1']], bearer('expired'), bearer('good:a:x'), bearer('good:a:x'), bearer('good:a:x')] as Fields[]) {
      reasons.push((await ask(edge.port, 'GET', '/', fields)).headers['x-edge-reason'])
    }
    expect(reasons).toEqual(['blocked', 'unknown_caller', undefined, undefined, 'token_bucket_exceeded'])
  })
})
