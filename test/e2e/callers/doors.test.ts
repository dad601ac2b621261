import { describe, expect, onTestFinished, test } from 'vitest'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../../support/callers/good-callers.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { askThrough, HTTP_DOORS } from '../../support/service/doors.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { startServer } from '../../support/service/two-wires.ts'

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 1, 1e-6), blockRule('block', { 'header:x-bad': '1' })] }))
const ENFORCING = { ...RULES, callers: { ...CALLERS, mode: 'enforce', except_paths: ['/health'], except_preflights: true } }
const OPEN = { ...RULES, callers: CALLERS }
const key = (text: string): Fields => [['X-Api-Key', text]]
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]
const PREFLIGHT: Fields = [
  ['Origin', 'https://app.test'],
  ['Access-Control-Request-Method', 'POST'],
]

const REWRITING: Fields = [
  ['X-Original-URL', '/v1/chat'],
  ['X-Original-URL', 'https://a.test/v1/chat'],
  ['X-Original-URI', '/v1/chat'],
  ['X-Rewrite-URL', '/v1/chat'],
  ['x_rewrite_url', '/v1/chat'],
  ['X-Rewrite_URL', '/v1/chat'],
  ['X-Rewrite-URL', '/health/../v1/chat'],
  ['X-Rewrite-URL', '/health#/v1/chat'],
  ['X-Rewrite-URL', '//health'],
  ['X-Forwarded-Uri', '/v1/chat'],
  ['X-Forwarded-Prefix', '/health'.slice(0, -1)],
  ['X-Forwarded-Path', '/v1/chat'],
  ['X-Forwarded-Prefix', '/health'],
  ['X-Script-Name', ''],
  ['X-Script-Name', '/health'],
  ['X-HTTP-Method-Override', 'POST'],
  ['X_HTTP_METHOD_OVERRIDE', 'POST'],
  ['X-HTTP-Method_Override', 'POST'],
  ['X-Method-Override', 'get'],
]

/** What a request with these fields is answered with, and with which words to the client. */
const REFUSED: readonly [string, Fields, string, string][] = [
  ['without a credential', [], 'Bearer', 'unknown_caller'],
  ['with a credential that is bad', bearer('expired'), 'Bearer error="invalid_token"', 'unknown_caller'],
  ['with a key that nobody issued', [['X-Api-Key', 'x']], 'Bearer error="invalid_token"', 'unknown_caller'],
  ['with two credentials', [...bearer('good:ada:blue'), ['X-Api-Key', 'edge_1']], 'Bearer error="invalid_request"', 'unknown_caller'],
  ['with a repeated credential', [...bearer('good:ada'), ...bearer('good:ada')], 'Bearer error="invalid_request"', 'unknown_caller'],
  ['whose keys are not available', bearer('keys_unavailable'), 'Bearer', 'caller_keys_unavailable'],
  ['that must wait for its check', bearer('busy'), 'Bearer', 'caller_check_busy'],
]

describe.each(HTTP_DOORS)('at the door $name', (door) => {
  describe.each([true, false])('with the fast wire: %s,', (hasFastWire) => {
    test.each(REFUSED)('a request %s gets 401', async (_, fields, challenge, reason) => {
      const port = await listening(hasFastWire)
      const { status, headers } = await askThrough(door, port, { host: 'a.test', fields })
      expect([status, headers['www-authenticate'], headers['x-edge-reason']]).toEqual([401, challenge, reason])
      expect(headers).not.toHaveProperty('retry-after')
    })

    test('a verified caller is limited by its labels, also if its keys are waited for', async () => {
      const port = await listening(hasFastWire)
      const statuses: number[] = []
      for (const token of ['later:ada:blue', 'good:eve:blue', 'good:eve:red', 'later:ada:red', 'expired', 'good:bob']) {
        statuses.push((await askThrough(door, port, { host: 'a.test', fields: bearer(token) })).status)
      }
      expect(statuses).toEqual([200, 429, 200, 429, 401, 200])
    })

    test('Envoy, and nobody else, is told which fields carry an issued key', async () => {
      const server = await startServer(OPEN, { hasFastWire, callerReaderOf: () => new GoodCallers() })
      onTestFinished(() => server.close())
      const told: (string | undefined)[] = []
      for (const fields of [key('edge_blue'), key('edge_blue'), key('edge_revoked'), bearer('good:ada:red')]) {
        const { headers } = await askThrough(door, server.port, { host: 'a.test', fields })
        told.push(headers['x-envoy-auth-headers-to-remove'] as string | undefined)
      }
      const isEnvoy = door.name === 'ext_authz'
      // The second one is rejected, and reaches no backend.
      expect(told).toEqual([isEnvoy ? 'x-api-key' : undefined, undefined, isEnvoy ? 'x-api-key' : undefined, undefined])
    })

    test('a preflight needs nobody if the bundle excepts them', async () => {
      const port = await listening(hasFastWire)
      const ask = async (method: string, more: Fields = []): Promise<number> =>
        (await askThrough(door, port, { host: 'a.test', method, fields: [...PREFLIGHT, ...more] })).status
      expect([await ask('OPTIONS'), await ask('POST'), await ask('OPTIONS', bearer('expired'))]).toEqual([200, 401, 401])
      // A preflight is one at any path, and of no other method.
      expect(await ask('OPTIONS', [['X-Forwarded-Prefix', '/shop']])).toBe(200)
      expect(await ask('OPTIONS', [['X-HTTP-Method', 'POST']])).toBe(401)
    })

    test('a block comes first, and an excepted path needs nobody', async () => {
      const port = await listening(hasFastWire)
      const ask = async (uri: string, fields: Fields): Promise<number> =>
        (await askThrough(door, port, { host: 'a.test', uri, fields })).status
      expect(await ask('/', [['X-Bad', '1']])).toBe(403)
      expect(await ask('/health/live?x=1', [])).toBe(200)
      expect(await ask('/health/..%2fapi', [])).toBe(401)
      expect(await ask('/health;/../api', [])).toBe(401)
    })

    test('a field that says another path or method ends an exception, and one that says the same does not', async () => {
      const port = await listening(hasFastWire)
      const own = door.describe('GET', '/health', 'a.test').fields.map(([name]) => name.toLowerCase())
      const ask = async (fields: Fields): Promise<number> =>
        (await askThrough(door, port, { host: 'a.test', uri: '/health?x=1', fields })).status
      for (const [name, value] of REWRITING.filter(([name]) => !own.includes(name.toLowerCase())))
        expect([name, await ask([[name, value]])]).toEqual([name, 401])
      expect(
        await ask([
          ['X-Rewrite-URL', '/health'],
          ['X-Rewrite-URL', '/health'],
        ]),
      ).toBe(401)
      expect(
        await ask([
          ['X-Rewrite-URL', '/health?x=1'],
          ['X-HTTP-Method-Override', 'GET'],
          ['X-Override-URL', 'https://b.test/health'],
          ['X-Forwarded-Prefix', '/'],
        ]),
      ).toBe(200)
      expect(await ask([['X-Rewrite-URL', '/v1/chat'], ...bearer('good:ada:blue')])).toBe(200)
    })
  })
})

describe('over gRPC', () => {
  test.each(REFUSED)('a request %s is denied with 401 and UNAUTHENTICATED, and the call succeeds', async (_, fields, challenge, reason) => {
    const edge = await started({ EDGE_GRPC_PORT: '0' })
    const { code, status, headers } = await check(authorization(edge.grpcPort), { fields })
    expect([code, status, headers['www-authenticate'], headers['x-edge-reason']]).toEqual([16, 401, challenge, reason])
  })

  test.each<[string, Fields, number]>([
    ['in any case', [['AUTHORIZATION', 'bEARER good:ada:blue']], 200],
    ['between white space', [['Authorization', ' \tBearer  good:ada:blue\t']], 200],
    [
      'twice, in two cases',
      [
        ['authorization', 'Bearer good:ada:blue'],
        ['Authorization', 'Bearer good:ada:blue'],
      ],
      401,
    ],
    ['twice in one line', [['Authorization', 'Bearer good:ada:blue, Bearer good:eve:blue']], 401],
    ['twice in one value', [['Authorization', 'Bearer good:ada:blue good:eve:blue']], 401],
    ['in bytes that are not ASCII', [['Authorization', 'Bearer good:ada:blue\u00a0good:eve:blue']], 401],
    ['of another scheme', [['Authorization', 'Basic good:ada:blue']], 401],
  ])('a credential %s is read as over HTTP', async (_, fields, expected) => {
    const edge = await started({ EDGE_GRPC_PORT: '0' })
    expect((await check(authorization(edge.grpcPort), { fields })).status).toBe(expected)
    expect((await edge.decide({ fields })).status).toBe(expected === 200 ? 429 : 401)
  })

  test('a verified caller is limited by its labels', async () => {
    const edge = await started({ EDGE_GRPC_PORT: '0' })
    const client = authorization(edge.grpcPort)
    const statuses: number[] = []
    for (const token of ['later:ada:blue', 'good:eve:blue', 'expired', 'good:eve:red'])
      statuses.push((await check(client, { fields: bearer(token) })).status)
    expect(statuses).toEqual([200, 429, 401, 200])
  })
})

test('over gRPC, Envoy is told which fields carry an issued key, and no client sees it', async () => {
  const edge = await running({ bundle: OPEN, env: { EDGE_GRPC_PORT: '0' }, callerReaderOf: () => new GoodCallers() })
  const client = authorization(edge.grpcPort)
  const answers = []
  for (const fields of [key('edge_blue'), key('edge_blue'), key('edge_revoked'), bearer('good:ada:red')])
    answers.push(await check(client, { fields }))
  expect(answers.map(({ status, removed }) => [status, removed])).toEqual([
    [200, ['x-api-key']],
    [429, []],
    [200, ['x-api-key']],
    [200, []],
  ])
  for (const { headers, upstream } of answers) expect({ ...headers, ...upstream }).not.toHaveProperty('x-envoy-auth-headers-to-remove')
})

test('many requests whose keys are waited for are answered in their order on one connection', async () => {
  const edge = await started()
  const asked = Array.from({ length: 20 }, (_, i) => edge.decide({ fields: bearer(i % 2 === 0 ? `later:u:t${i}` : 'expired') }))
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(asked.map((_, i) => (i % 2 === 0 ? 200 : 401)))
})

async function listening(hasFastWire: boolean): Promise<number> {
  const server = await startServer(ENFORCING, { hasFastWire, callerReaderOf: () => new GoodCallers() })
  onTestFinished(() => server.close())
  return server.port
}

function started(env: Record<string, string> = {}): Promise<Edge> {
  return running({ bundle: ENFORCING, env, callerReaderOf: () => new GoodCallers() })
}
