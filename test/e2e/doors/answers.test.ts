import { METHODS } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { askThrough, DECISION, FORWARD_AUTH, HTTP_DOORS, questionBytes } from '../../support/service/doors.ts'
import { ask, exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { readAnswers, type WireAnswer } from '../../support/service/wire.ts'
import { ASKED, budgetBundle, settle } from '../../support/settle/settling.ts'

const OTHERS = HTTP_DOORS.filter((door) => door !== DECISION)
const SECRET = 'a secret for tests'

const RULES = bundle(
  1,
  policy('callers', { rules: [bucketRule('caller', ['header:x-caller'], 2)] }),
  policy('addresses', { selector: { pathPrefix: '/ip' }, rules: [bucketRule('address', ['ip:address'], 1)] }),
  policy('hosts', { selector: { pathPrefix: '/by-host', hosts: ['*.example.com'] }, rules: [bucketRule('host', [], 5)] }),
  policy('posts', { selector: { pathPrefix: '/posts', methods: ['POST'] }, rules: [bucketRule('post', ['query:q'], 1)] }),
  policy('blocked', {
    selector: { pathPrefix: '/blocked' },
    rules: [{ name: 'block', limit_keys: [], algorithm: 'block', algorithm_config: {} }],
  }),
)

describe.each(OTHERS.map((door) => [door.path, door] as const))('%s', (_path, door) => {
  test('answers as /v1/decision does: allowed, rejected, blocked, refused', async () => {
    const questions = [
      { fields: caller('a') },
      { fields: caller('a') },
      { fields: caller('a') },
      { uri: '/blocked/x', fields: caller('b') },
      { fields: [...caller('c'), ...caller('d')] },
      { uri: '/by-host', host: 'api.example.com' },
      { uri: '/by-host' },
      { method: 'POST', uri: '/posts?q=1' },
      { method: 'POST', uri: '/posts/%2e?x=%20&q=1' },
      { method: 'PUT', uri: '/posts?q=1' },
      { uri: '/free' },
    ]
    const [expected, answers] = await Promise.all(
      [DECISION, door].map(async (each) => {
        const edge = await running({ bundle: RULES, clock: new ManualClock() })
        const bytes = questions.map((question, i) => questionBytes(each, question, { isLast: i === questions.length - 1 }))
        return readAnswers(await exchange(edge.port, Buffer.concat(bytes))).map(withoutDate)
      }),
    )
    expect(expected!.map(({ status }) => status)).toEqual([200, 200, 429, 403, 400, 200, 400, 200, 429, 200, 200])
    expect(expected!.every(({ headers }) => headers['content-length'] === '0')).toBe(true)
    expect(answers).toEqual(expected)
  })

  test('reads the address from X-Forwarded-For', async () => {
    const edge = await running({ bundle: RULES, clock: new ManualClock() })
    const status = async (list: string): Promise<number> =>
      (await askThrough(door, edge.port, { uri: '/ip', fields: [['X-Forwarded-For', list]] })).status
    expect(await status('203.0.113.7, 10.0.0.1')).toBe(200)
    expect(await status('198.51.100.1, 203.0.113.7')).toBe(429)
    expect(await status('203.0.113.8')).toBe(200)
  })

  test('shows debug headers to a session', async () => {
    const edge = await running({ bundle: RULES, env: { EDGE_DEBUG_SESSION_SECRET: SECRET } })
    const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    const cookie: Fields = [['Cookie', login.headers['set-cookie']!.split(';')[0]!]]
    const { headers } = await askThrough(door, edge.port, { fields: [...caller('a'), ...cookie] })
    expect(headers).toMatchObject({ 'x-edge-debug-policy': 'callers', 'x-edge-debug-descriptor-1-value': 'a' })
    expect((await askThrough(door, edge.port, { fields: caller('a') })).headers).not.toHaveProperty('x-edge-debug-policy')
  })

  test('takes from a token budget what the hints say, and lets it be settled', async () => {
    const edge = await running({ bundle: budgetBundle(1000), env: { EDGE_GATEWAY_HINTS: 'on' }, clock: new ManualClock() })
    const hints: Fields = [
      ['X-Key', 'a'],
      ['X-Edge-Prompt-Tokens', '30'],
      ['X-Edge-Max-Tokens', '20'],
    ]
    const { status, headers } = await askThrough(door, edge.port, { method: 'POST', uri: '/v1/chat', fields: [...hints, ...ASKED] })
    expect([status, headers['ratelimit-remaining']]).toEqual([200, '950'])
    expect((await settle(edge.port, headers['x-edge-reservation']!, { prompt_tokens: 30, completion_tokens: 5 })).status).toBe(204)
    const next = await askThrough(door, edge.port, { method: 'POST', uri: '/v1/chat', fields: [['X-Key', 'a']] })
    expect(next.headers['ratelimit-remaining']).toBe('865')
    expect(next.headers).not.toHaveProperty('x-edge-reservation')
  })

  test('without a bundle: 503', async () => {
    const edge = await running()
    expect(await askThrough(door, edge.port)).toMatchObject({
      status: 503,
      headers: { 'x-edge-reason': 'no_bundle_loaded', 'content-length': '0' },
    })
  })

  test('can be asked with any method', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100)] })), clock: new ManualClock() })
    const methods = METHODS.filter((method) => method !== 'CONNECT')
    const questions = methods.map((method, i) => questionBytes(door, { method }, { ownMethod: method, isLast: i === methods.length - 1 }))
    const received = await exchange(edge.port, Buffer.concat(questions))
    expect(readAnswers(received).map(({ headers }) => Number(headers['ratelimit-remaining']))).toEqual(methods.map((_, i) => 99 - i))
    // Not a byte more than heads, for HEAD and for all others.
    expect(
      received
        .split('\r\n\r\n')
        .slice(0, -1)
        .every((head) => head.startsWith('HTTP/1.1 200 OK\r\n')),
    ).toBe(true)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })

  test('is a path of the backend in reverse_proxy', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: RULES })
    await askThrough(door, edge.port, { uri: '/x', host: 'edge.test', fields: caller('a') })
    expect(backend.seen.map(({ url }) => url)).toEqual([door.describe('GET', '/x', undefined).target])
  })
})

test('a caller has one limit, whichever way its requests are asked about', async () => {
  const edge = await running({
    bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], 3)] })),
    clock: new ManualClock(),
  })
  const statuses: number[] = []
  for (const door of HTTP_DOORS) statuses.push((await askThrough(door, edge.port, { fields: caller('a') })).status)
  expect(statuses).toEqual([200, 200, 200, 429])
})

describe('the path of a question', () => {
  test('is compared to the letter: 404 for any other', async () => {
    const edge = await running({ bundle: RULES })
    for (const path of [
      ...['/v1/forward-auth/', '/v1/forward-auth/x', '/v1/forward-authx', '//v1/forward-auth', '/V1/forward-auth', '/v1/auth-request/'],
      ...['/v1/auth-requests', '/v1/ext-authzx', '/v1/ext-authz*', '/v1/ext-authz%2Fx', '/v1/ext_authz/x', '/v1'],
    ])
      for (const method of ['GET', 'POST']) expect([path, (await ask(edge.port, method, path)).status]).toEqual([path, 404])
  })

  test.each(OTHERS.map(({ path }) => path))('%s may have a query or be in absolute form', async (path) => {
    const edge = await running({ bundle: RULES })
    const reasons: (string | undefined)[] = []
    for (const target of [path, `${path}?`, `${path}?next=/v1/decision`, `http://edge${path}?a#b`]) {
      const head = `GET ${target} HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n`
      reasons.push(readAnswers(await exchange(edge.port, head))[0]!.headers['x-edge-reason'])
    }
    expect(new Set(reasons).size).toBe(1)
    expect(reasons[0]).toBe(path === '/v1/ext-authz' ? undefined : 'missing_original_method')
  })

  test('/v1/decision takes POST alone', async () => {
    const edge = await running({ bundle: RULES })
    for (const method of ['GET', 'HEAD', 'PUT', 'OPTIONS'])
      expect(await askThrough(DECISION, edge.port, {}, method)).toMatchObject({ status: 405, headers: { allow: 'POST' } })
  })

  test('CONNECT opens no tunnel through any of them', async () => {
    const edge = await running({ bundle: RULES })
    expect(await exchange(edge.port, 'CONNECT /v1/ext-authz/ HTTP/1.1\r\nHost: edge\r\n\r\n')).toBe('')
    expect((await askThrough(FORWARD_AUTH, edge.port)).status).toBe(200)
  })
})

function caller(name: string): Fields {
  return [['X-Caller', name]]
}

function withoutDate({ status, headers: { date: _, ...headers } }: WireAnswer): WireAnswer {
  return { status, headers }
}
