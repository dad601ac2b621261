import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { askWith, BUNDLE, setCookieOf } from '../../support/admin/session.ts'
import { askRaw } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const READ_TOKEN = 'a-token-for-reading-of-thirty-two-characters-or-more'
const READ_ONLY = { status: 403, json: { error: { code: 'read_only', type: 'permission_error' } } }
const COUNTERS = { policy: 'p', rule: 'r' }

/** Everything that changes something, or prepares a change. */
const CHANGES: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['POST', 'counters/reset', { ...COUNTERS, reason: 'a test' }],
  ['POST', 'overrides', { policy: 'p', rule: 'r', all: true, block: true, until: '2099-01-01T00:00:00Z', reason: 'a test' }],
  ['POST', 'overrides/preview', { policy: 'p', rule: 'r', all: true, block: true, until: '2099-01-01T00:00:00Z' }],
  ['POST', 'overrides/preview/0123456789ab', {}],
  ['PATCH', 'overrides/0123456789ab', { reason: 'a test' }],
  ['DELETE', 'overrides/0123456789ab?reason=test'],
  ['POST', 'keys', { labels: { team: 'search' }, reason: 'a test' }],
  ['POST', 'keys/acknowledge', { reason: 'a test' }],
  ['PATCH', 'keys/0123456789ab', { reason: 'a test' }],
  ['DELETE', 'keys/0123456789ab?reason=test'],
  ['POST', 'backends/0123456789ab/retry', { reason: 'a test' }],
  ['GET', 'bundles/1?credentials=clear'],
  ['POST', 'bundles/announcements', { hash: '0'.repeat(64), reason: 'a test' }],
]

describe('EDGE_ADMIN_READ_TOKEN', () => {
  const shared = new ManualClock()
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_ADMIN_READ_TOKEN: READ_TOKEN }, clock: shared }, owner)
  })

  // What is refused counts by the minute.
  afterEach(() => shared.advance(60_000))

  const asReader = (method: string, path: string, body?: object) =>
    askAdmin(edge.adminPort, method, path, { token: READ_TOKEN, ...(body && { body }) })

  async function readerSession() {
    const response = await askAdmin(edge.adminPort, 'POST', 'session', { token: undefined, body: { token: READ_TOKEN, actor: 'rita' } })
    return { response, cookie: setCookieOf(response).split(';')[0]!, csrf: response.json.csrf_token as string }
  }

  test('reads everything, explains, and inspects', async () => {
    for (const path of [
      'status',
      'policies',
      'activity',
      'bundle',
      'bundles',
      'overrides',
      'keys',
      'top',
      'callers',
      'changes',
      'openapi.json',
    ])
      expect([path, (await asReader('GET', path)).status]).toEqual([path, 200])
    expect((await asReader('POST', 'explain', { method: 'GET', uri: '/' })).status).toBe(200)
    expect((await asReader('POST', 'counters', COUNTERS)).status).toBe(200)
    expect((await asReader('POST', 'callers', { value: 'acme' })).status).toBe(200)
  })

  test.each(CHANGES.map(([method, path, body]) => ({ method, path, body })))(
    'does not allow $method $path, and says which token would',
    async ({ method, path, body }) => {
      const response = await asReader(method, path, body)
      expect(response).toMatchObject(READ_ONLY)
      expect(response.json.error.message).toContain('EDGE_ADMIN_TOKEN')
      expect(edge.logged('admin_refused')).toEqual([])
    },
  )

  test('covers every path of the API: what is neither GET nor listed here is for readers on purpose', async () => {
    const { paths } = (await asReader('GET', 'openapi.json')).json as { paths: Record<string, Record<string, unknown>> }
    const listed = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => ['post', 'patch', 'delete', 'put'].includes(method))
        .map((method) => `${method.toUpperCase()} ${path.replace(/^\/(admin\/v1\/)?/, '').replace(/\{\w+\}/, '0123456789ab')}`),
    )
    const changes = CHANGES.filter(([method]) => method !== 'GET').map(([method, path]) => `${method} ${path.split('?')[0]}`)
    const open = ['POST explain', 'POST counters', 'POST callers', 'POST session', 'DELETE session']
    expect(listed.toSorted()).toEqual([...changes, ...open].toSorted())
  })

  test('opens a session that reads, explains and ends, and changes nothing', async () => {
    const { response, cookie, csrf } = await readerSession()
    expect(response).toMatchObject({ status: 200, json: { read_only: true } })
    expect(edge.logged('admin_session_opened').at(-1)).toMatchObject({ actor: 'rita', read_only: true })
    expect((await askWith(cookie, edge.adminPort, 'GET', 'session')).json).toMatchObject({ read_only: true })
    expect((await askWith(cookie, edge.adminPort, 'GET', 'status')).status).toBe(200)
    const withCsrf = { 'X-Edge-CSRF': csrf }
    expect((await askWith(cookie, edge.adminPort, 'POST', 'explain', withCsrf, { method: 'GET', uri: '/' })).status).toBe(200)
    for (const [method, path, body] of CHANGES)
      expect(await askWith(cookie, edge.adminPort, method, path, withCsrf, body)).toMatchObject(READ_ONLY)
    expect((await askWith(cookie, edge.adminPort, 'DELETE', 'session', withCsrf)).status).toBe(204)
    expect((await askWith(cookie, edge.adminPort, 'GET', 'status')).status).toBe(401)
  })

  test('does not become more beside the cookie or the csrf_token of an operator', async () => {
    const reader = await readerSession()
    const operator = await askAdmin(edge.adminPort, 'POST', 'session', { token: undefined, body: { token: ADMIN_TOKEN } })
    expect(operator.json.read_only).toBe(false)
    const [method, path, body] = CHANGES[0]!
    const csrf = { 'X-Edge-CSRF': operator.json.csrf_token as string }
    expect((await askWith(reader.cookie, edge.adminPort, method, path, csrf, body)).status).toBe(403)
    const cookie = setCookieOf(operator).split(';')[0]!
    expect((await askWith(cookie, edge.adminPort, method, path, { 'X-Edge-CSRF': reader.csrf }, body)).status).toBe(403)
    // The header field counts, whatever the cookie is.
    const both = { token: READ_TOKEN, headers: { Cookie: cookie, ...csrf }, body: body! }
    expect(await askAdmin(edge.adminPort, method, path, both)).toMatchObject(READ_ONLY)
    expect((await askWith(cookie, edge.adminPort, method, path, csrf, body)).status).toBe(200)
  })

  test.each(['HEAD', 'OPTIONS', 'PUT'])('changes nothing by %s, nor by a field that names another method', async (method) => {
    const url = `http://127.0.0.1:${edge.adminPort}/admin/v1/overrides`
    const headers = { Authorization: `Bearer ${READ_TOKEN}` }
    expect((await fetch(url, { method, headers })).status).toBe(405)
    for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']) {
      const asked = await fetch(url, { headers: { ...headers, [name]: 'POST' } })
      expect([asked.status, await asked.json()]).toEqual([200, expect.objectContaining({ overrides: [] })])
      const posted = await fetch(url, { method: 'POST', headers: { ...headers, [name]: 'GET' }, body: '{}' })
      expect(posted.status).toBe(403)
    }
  })

  test('hears events as they happen', async () => {
    const ending = new AbortController()
    const response = await fetch(`http://127.0.0.1:${edge.adminPort}/admin/v1/events`, {
      headers: { Authorization: `Bearer ${READ_TOKEN}` },
      signal: ending.signal,
    })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    ending.abort()
  })

  test('is one token in one field: neither two, nor both joined, are any', async () => {
    for (const token of [`${READ_TOKEN},${ADMIN_TOKEN}`, `${READ_TOKEN}${ADMIN_TOKEN}`, READ_TOKEN.toUpperCase(), READ_TOKEN.slice(0, -1)])
      expect((await askAdmin(edge.adminPort, 'GET', 'status', { token })).status).toBe(401)
    const twice = [`Bearer ${READ_TOKEN}`, `Bearer ${ADMIN_TOKEN}`].map((value) => `Authorization: ${value}\r\n`).join('')
    const answer = await askRaw(edge.adminPort, `GET /admin/v1/status HTTP/1.1\r\nHost: a\r\n${twice}Connection: close\r\n\r\n`)
    expect(answer.status).toBe(401)
  })

  test('is never shown', async () => {
    await asReader('POST', 'keys', { labels: { team: 'x' }, reason: 'y' })
    expect(JSON.stringify(edge.log)).not.toContain(READ_TOKEN)
    expect(JSON.stringify((await asReader('GET', 'status')).json)).not.toContain(READ_TOKEN)
  })
})
