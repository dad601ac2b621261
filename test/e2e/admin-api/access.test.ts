import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { SECRET, SECRET_ENV } from '../../conformance/debug-login.ts'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const STATUS = '/admin/v1/status'
const BEARER = ['Authorization', `Bearer ${ADMIN_TOKEN}`] as const

describe('the admin API', () => {
  // What is refused counts by the minute, and this clock is moved on after each test.
  const clock = new ManualClock()
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: bundle(1), env: { ...ADMIN_ENV, ...SECRET_ENV }, clock }, owner)
  })

  afterEach(() => clock.advance(60_000))

  test('returns 404 where there is no token, whatever is below /admin/', async () => {
    const bare = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } })
    for (const path of [STATUS, '/admin/v1/', '/admin/v1', '/admin/', '/admin/v1/session', '/'])
      expect([path, (await ask(bare.adminPort, 'GET', path, [BEARER])).status]).toEqual([path, 404])
  })

  test('needs the token in the header field, and shows nothing without it', async () => {
    const before = edge.logged('admin_refused').length
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
    for (const path of ['status', 'nothing', 'openapi.json', `status?token=${ADMIN_TOKEN}`]) {
      for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS'])
        expect(await askAdmin(edge.adminPort, method, path, { token: undefined })).toMatchObject({
          status: 401,
          headers: { 'www-authenticate': 'Bearer', 'cache-control': 'no-store', 'content-type': 'application/json' },
          json: { error: { code: 'unauthorized', type: 'authentication_error' } },
        })
    }
    expect(edge.logged('admin_refused')).toHaveLength(before)
  })

  test('never logs or returns a token, wherever it was sent', async () => {
    const before = edge.logged('admin_refused').length
    const secret = `${ADMIN_TOKEN}-and-more`
    const answers = [
      await askAdmin(edge.adminPort, 'GET', `status?token=${secret}`, { token: undefined }),
      await askAdmin(edge.adminPort, 'GET', `status/${secret}`, { token: secret }),
      await askAdmin(edge.adminPort, 'GET', `status?access_token=${secret}`),
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 400])
    expect(await untilLogged(edge, 'admin_refused', before + 1)).toHaveLength(before + 1)
    expect(JSON.stringify([edge.log, answers.slice(0, 2)])).not.toContain(ADMIN_TOKEN)
  })

  test.each([
    ['a longer one', [['Authorization', `Bearer ${ADMIN_TOKEN}x`]]],
    ['a part of it', [['Authorization', `Bearer ${ADMIN_TOKEN.slice(0, -1)}`]]],
    ['none', [['Authorization', 'Bearer']]],
    ['an empty field', [['Authorization', '']]],
    ['another scheme', [['Authorization', `Basic ${ADMIN_TOKEN}`]]],
    ['the right one twice', [BEARER, BEARER]],
    ['the right one and another', [BEARER, ['authorization', 'Bearer x']]],
    ['two in one field', [['Authorization', `Bearer ${ADMIN_TOKEN}, Bearer ${ADMIN_TOKEN}`]]],
    ['it in another field', [['X-Admin-Token', ADMIN_TOKEN]]],
  ] as const)('refuses %s', async (_what, fields) => {
    expect((await ask(edge.adminPort, 'GET', STATUS, fields)).status).toBe(401)
  })

  test.each(['bearer', 'BEARER', 'Bearer  '])('takes the scheme as %s', async (scheme) => {
    expect((await ask(edge.adminPort, 'GET', STATUS, [['Authorization', `${scheme} ${ADMIN_TOKEN}`]])).status).toBe(200)
  })

  test('gives 429 beyond ten wrong tokens a minute, without a log line; the right one always works', async () => {
    const before = edge.logged('admin_refused').length
    const guess = () => askAdmin(edge.adminPort, 'GET', 'status', { token: 'x'.repeat(40) })
    for (let i = 0; i < 10; i++) expect((await guess()).status).toBe(401)
    expect(await guess()).toMatchObject({
      status: 429,
      headers: { 'retry-after': '60' },
      json: { error: { code: 'too_many_attempts', type: 'rate_limit_error' } },
    })
    expect(await untilLogged(edge, 'admin_refused', before + 10)).toHaveLength(before + 10)
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
    expect((await askAdmin(edge.adminPort, 'GET', 'status', { token: undefined })).status).toBe(401)
    clock.advance(60_000)
    expect((await guess()).status).toBe(401)
  })

  test('counts wrong tokens and wrong secrets of debug sessions apart', async () => {
    for (let i = 0; i < 20; i++) await askAdmin(edge.adminPort, 'GET', 'status', { token: 'wrong' })
    await ask(edge.adminPort, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', `${SECRET}x`]])
    expect(await untilLogged(edge, 'debug_session_refused')).toMatchObject([{ delay_ms: 0 }])
  })

  test('is not on the main port', async () => {
    expect((await ask(edge.port, 'GET', STATUS, [BEARER])).status).toBe(404)
  })

  test('has errors of one shape: unknown paths, methods and parameters', async () => {
    for (const path of ['', 'nothing', 'status/', 'Status', '%73tatus', '../v1/nothing', '__proto__'])
      expect(await askAdmin(edge.adminPort, 'GET', path)).toMatchObject({
        status: 404,
        headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
        json: { error: { code: 'not_found', type: 'invalid_request_error' } },
      })
    for (const method of ['POST', 'DELETE', 'PUT', 'OPTIONS'])
      expect(await askAdmin(edge.adminPort, method, 'status')).toMatchObject({
        status: 405,
        headers: { allow: 'GET' },
        json: { error: { code: 'method_not_allowed' } },
      })
    expect(await ask(edge.adminPort, 'HEAD', STATUS, [BEARER])).toMatchObject({ status: 405, body: '' })
    for (const query of ['x=1', 'policy=', '__proto__=1'])
      expect(await askAdmin(edge.adminPort, 'GET', `status?${query}`)).toMatchObject({
        status: 400,
        json: { error: { code: 'bad_request' } },
      })
  })

  test('serves pipelined requests of one connection in order', async () => {
    const client = RawClient.connect(edge.adminPort)
    const get = (path: string, token: string): string =>
      `GET /admin/v1/${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`
    client.send(get('status', ADMIN_TOKEN) + get('status', 'x') + get('nothing', ADMIN_TOKEN) + get('status', ADMIN_TOKEN))
    await until(() => statusesIn(client.received).length === 4)
    expect(statusesIn(client.received)).toEqual([200, 401, 404, 200])
  })
})
